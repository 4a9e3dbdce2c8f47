"""Write the generated parts of pages, which stand between `<!-- name -->` and `<!-- end -->`."""

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

__all__ = ["write"]


def write(page: Path, parts: Mapping[str, Callable[[], Iterable[str]]]) -> None:
    """Replace the parts of a page, or with --check exit with an error if they are not current."""
    stored = text = page.read_text(encoding="utf-8")
    for name, lines in parts.items():
        before, opening, rest = text.partition(f"<!-- {name} -->\n")
        _, closing, after = rest.partition("<!-- end -->")
        assert closing, f"{page.relative_to(page.parents[1])} has no part {name}"
        text = before + opening + "\n".join(lines()) + "\n" + closing + after
    if "--check" in sys.argv:
        sys.exit(0 if stored == text else f"{page.relative_to(page.parents[1])} is stale: make docs")
    page.write_text(text, encoding="utf-8")
