"""Any other text: errors, beginning and end, and how much is left out in between."""

from collections.abc import Sequence

from satchel.model.patterns import lazy_pattern
from satchel.session.digests.base import LONGEST_LOOK, Rank, Row, Shape, counted, excerpt, one_line
from satchel.session.digests.errors import ERROR_WIDTH, error_lines, error_rows
from satchel.text.redact import redact

__all__ = ["AnyText"]

HEAD = 4
TAIL = 3
WIDTH = 120

# Paths, ids and numbers, which a later step may need verbatim.
_FACT = lazy_pattern(r"\d|[\w.-]/[\w.-]|\b\w+\.\w{1,5}\b|\b[0-9a-f]{7,}\b|https?:")


class AnyText(Shape):
    """Text of no other shape."""

    name = "text"

    def title(self) -> str:
        lines = self.source.lines
        return f"Text: {lines:,} line{'' if lines == 1 else 's'}, {self.source.size}"

    def headline(self) -> str:
        errors = error_lines(self.source) if self.source.whole else []
        return f"{self.title()}: {errors[0] if errors else self.source.first_line}"

    def rows(self) -> list[Row]:
        source = self.source
        filled = [line for line in source.sample if line.strip()]
        told = error_rows(error_lines(source))
        if source.lines <= 1:
            return [*told, *_of_one_line(source.text.strip())]
        shown = {row.parts[0] for row in told}
        head = [line for line in filled[:HEAD] if excerpt(line, ERROR_WIDTH) not in shown]
        tail = [line for line in filled[HEAD:][-TAIL:] if excerpt(line, ERROR_WIDTH) not in shown]
        gap = [Row(Rank.NUMBER, [], of=source.lines)]
        # The last line usually reports the outcome, so it ranks above the others.
        last = [row._replace(rank=min(row.rank, Rank.NUMBER)) for row in _shown(tail[-1:])]
        return [*told, *_shown(head), *gap, *_shown(tail[:-1]), *last]


def _shown(lines: Sequence[str]) -> list[Row]:
    return [Row(Rank.PATH if _FACT.search(line) else Rank.PROSE, [excerpt(line, WIDTH)], shows=1) for line in lines]


def _of_one_line(text: str) -> list[Row]:
    # Mask before cutting: half a secret is not recognised.
    head, tail = excerpt(text, WIDTH), redact(one_line(text[-LONGEST_LOOK:])).text[-WIDTH:]
    left = len(text) - len(head) - len(tail)
    gap = Row(Rank.NUMBER, [f"… {counted(max(0, left), exact=False)} characters left out …"])
    return [Row(Rank.PROSE, [head]), gap, Row(Rank.PROSE, [tail])]
