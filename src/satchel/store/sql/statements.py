"""The named statements of a database: those that all take alike, and those of its own folder."""

import re
from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path

__all__ = ["Statements"]

SHARED = Path(__file__).with_name("statements.sql")

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n?", re.MULTILINE)


class Statements:
    """Statements by name, with what is the same in all of them filled in."""

    def __init__(self, folder: Path, fixed: Mapping[str, str]) -> None:
        self._folder = folder
        self.fixed = dict(fixed)
        self.statement = lru_cache(maxsize=512)(self._statement)

    def _statement(self, name: str, **parts: str) -> str:
        return self.named[name].format(**self.fixed, **parts)

    @cached_property
    def named(self) -> dict[str, str]:
        files = (SHARED, self._folder / "queries.sql", self._folder / "ledger.sql")
        blocks = _NAME.split("\n".join(file.read_text(encoding="utf-8") for file in files))[1:]
        return {name: _COMMENT.sub("", body).strip() for name, body in zip(blocks[::2], blocks[1::2], strict=True)}
