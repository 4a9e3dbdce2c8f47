"""A tool's output as a digest looks at it: what is counted at little cost, and a bounded sample of its lines."""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from satchel.session.line_sample import Sample, sample

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from satchel.session.digests.rows import Row

__all__ = ["Digest", "Source", "counted"]

WHOLE = 64_000
_CHUNK = 32_000

_PATHS = (
    "path", "file_path", "filepath", "file", "filename", "target_file", "absolute_path", "relative_path", "uri",
    "url", "directory", "dir", "folder", "root", "cwd",
)  # fmt: skip
_PATTERNS = ("pattern", "query", "regex", "search", "q", "text", "glob", "needle", "search_term", "term")
_KEY_WORD = re.compile(r"[^a-z]")


class Digest(Protocol):
    """What is told of a source by its shape."""

    def title(self) -> str:
        """What it is and how much, on a line; costs no more than looking at the sample."""

    def rows(self) -> "list[Row]":
        """What else is worth telling."""


class Source:
    """The text of a tool's output with what its call says about it."""

    def __init__(self, text: str, *, arguments: Mapping[str, Any] | None = None) -> None:
        self.text = text
        self._arguments = arguments or {}

    @cached_property
    def codes(self) -> "NDArray[np.uint8]":
        """The code point of each character, 255 for all above: numpy counts in it faster than `str.count` does."""
        import numpy as np

        try:
            return np.frombuffer(self.text.encode("latin-1"), dtype=np.uint8)
        except UnicodeEncodeError:
            codes = np.empty(len(self.text), dtype=np.uint8)
            for start in range(0, len(self.text), _CHUNK):
                # As an array of one string: an encoder takes long where surrogates stand alone.
                wide = np.array([self.text[start : start + _CHUNK]]).view(np.uint32)
                codes[start : start + _CHUNK] = np.minimum(wide, 255)
            return codes

    @cached_property
    def lines(self) -> int:
        """How many lines there are; what follows the last line end is one too."""
        import numpy as np

        ends = int(np.count_nonzero(self.codes == 10)) if self.text.isascii() else self.text.count("\n")
        return ends + (not self.text.endswith("\n")) if self.text else 0

    @cached_property
    def filled_lines(self) -> int:
        """How many lines there are that are not empty."""
        import numpy as np

        if not self.text:
            return 0
        ends = self.codes == 10
        starts = (self.codes != 10) & (self.codes != 13)
        return int(np.count_nonzero(ends[:-1] & starts[1:])) + bool(starts[0])

    @cached_property
    def sample(self) -> Sequence[str]:
        return self._sampled.lines

    @property
    def whole(self) -> bool:
        """Whether the sample is all there is."""
        return self._sampled.whole

    @cached_property
    def _sampled(self) -> Sample:
        return sample(self.text, whole=WHOLE, head=4_000, windows=8, window=1_000)

    def about(self, found: int) -> str:
        """How many there are in all, when so many were found in the sample; marked where it is an estimate."""
        if self.whole or not found:
            return counted(found) if self.whole else "~0"
        return counted(round(found * self.lines / max(1, len(self.sample))), exact=False)

    @cached_property
    def size(self) -> str:
        """In KB of UTF-8; marked where it is an estimate."""
        if self.text.isascii():
            return _in_kilobytes(len(self.text))
        if self.whole:
            return _in_kilobytes(len(self.text.encode("utf-8", "surrogatepass")))
        seen = "\n".join(self.sample)
        ratio = len(seen.encode("utf-8", "surrogatepass")) / max(1, len(seen))
        return "~" + _in_kilobytes(round(len(self.text) * ratio))

    @property
    def path(self) -> str | None:
        """Of the file or folder that was asked for."""
        return self._argument(_PATHS)

    @property
    def pattern(self) -> str | None:
        """What was searched for."""
        return self._argument(_PATTERNS)

    def _argument(self, names: Sequence[str]) -> str | None:
        given = {_KEY_WORD.sub("", str(name).lower()): value for name, value in self._arguments.items()}
        values = (given.get(_KEY_WORD.sub("", name)) for name in names)
        return next((value for value in values if isinstance(value, str) and value.strip()), None)


def counted(number: int, *, exact: bool = True) -> str:
    """`12,345`, or `~12,000` where only the first two digits can be relied on."""
    if exact:
        return f"{number:,}"
    unit = 10 ** max(0, len(str(number)) - 2)
    return f"~{round(number / unit) * unit:,}"


def _in_kilobytes(size: int) -> str:
    return f"{size:,} B" if size < 1_000 else f"{size / 1_000:,.1f} KB"
