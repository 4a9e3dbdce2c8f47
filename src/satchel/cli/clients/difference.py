"""What an edit changes in a text, as a unified diff that shows little of what is around it."""

from collections.abc import Callable, Sequence
from itertools import takewhile

__all__ = ["difference", "shared"]

Mask = Callable[[str], str]

_AROUND = 2
# A file may be one line of megabytes. Of a long line only a part is shown, and what is masked in it is
# recognised in a wider one.
_LONG = 400
_SHOWN = 80
_MASKED = 2_000


def difference(before: str, after: str, *, path: str, mask: Mask) -> str:
    """One hunk from the first to the last line that differs; `mask` hides the secrets in what is shown."""
    old, new = _lines(before), _lines(after)
    head = shared(old, new)
    tail = shared(old[head:][::-1], new[head:][::-1])
    gone, come = old[head : len(old) - tail], new[head : len(new) - tail]
    start = max(0, head - _AROUND)
    above, below = old[start:head], old[len(old) - tail :][:_AROUND]
    if len(gone) == len(come) == 1 and max(len(gone[0]), len(come[0])) > _LONG:
        gone, come = _shortened_alike(gone[0], come[0], mask)
    shown = [
        *(" " + _shortened(line, mask) for line in above),
        *("-" + _shortened(line, mask) for line in gone),
        *("+" + _shortened(line, mask) for line in come),
        *(" " + _shortened(line, mask) for line in below),
    ]
    around = len(above) + len(below)
    spans = (_span(start, around + len(gone)), _span(start, around + len(come)))
    names = ("/dev/null" if not old else path, path)
    heading = [f"--- {names[0]}", f"+++ {names[1]}", f"@@ -{spans[0]} +{spans[1]} @@"]
    return mask("\n".join([*heading, *shown]) + "\n")


def _lines(text: str) -> list[str]:
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def shared(left: Sequence[object], right: Sequence[object]) -> int:
    """How many items two sequences begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))


def _span(start: int, count: int) -> str:
    return f"{start + 1 if count else start},{count}"


def _shortened(line: str, mask: Mask) -> str:
    return line if len(line) <= _LONG else mask(line[:_MASKED])[:_SHOWN] + "…"


def _shortened_alike(gone: str, come: str, mask: Mask) -> tuple[list[str], list[str]]:
    """What differs in two long lines, with a little of what they share before and behind it."""
    head = shared(gone, come)
    tail = shared(gone[head:][::-1], come[head:][::-1])
    before = mask(gone[:head][-_MASKED:])[-_SHOWN:]
    behind = mask(gone[len(gone) - tail :][:_MASKED])[:_SHOWN]
    middles = (line[head : len(line) - tail] for line in (gone, come))
    first, second = (f"…{before}{mask(middle)}{behind}…" for middle in middles)
    return [first], [second]
