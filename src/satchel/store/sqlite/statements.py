"""The named statements of `queries.sql` and `ledger.sql`."""

import re
from functools import cache, lru_cache
from pathlib import Path

from satchel.store.sqlite.rows import COLUMNS, READ_COLUMNS

__all__ = ["statement"]

# Title over tags over text.
_FIXED = {
    "columns": READ_COLUMNS,
    "weights": "4.0, 1.0, 2.0",
    "names": ", ".join(COLUMNS),
}


@lru_cache(maxsize=512)
def statement(name: str, **parts: str) -> str:
    """One statement by name, its variable parts filled in."""
    return _named()[name].format(**_FIXED, **parts)


@cache
def _named() -> dict[str, str]:
    folder = Path(__file__).with_name("sql")
    text = "".join((folder / name).read_text(encoding="utf-8") for name in ("queries.sql", "ledger.sql"))
    blocks = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)[1:]
    return {
        name: re.sub(r"^--.*\n?", "", body, flags=re.MULTILINE).strip()
        for name, body in zip(blocks[::2], blocks[1::2], strict=True)
    }
