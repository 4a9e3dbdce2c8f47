"""What every result of a public method offers: `to_dict()`, `json()` and a one-line `repr`."""

from typing import Any

import msgspec

from satchel.model.invisible import json_bytes

__all__ = ["FittedResult", "Result", "quoted"]

_WIDTH = 48


class Result:
    """A value that a public method returns.

    Python, `--json` on the command line and the HTTP service all print the same fields, because all of them encode
    the value that `_plain` returns. A class that is not a struct itself overrides it.
    """

    __slots__ = ()

    def _plain(self) -> Any:
        """Return the struct or list that is encoded; for most results that is the result itself."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a dict of plain values, complete and ready for `json.dumps`.

        Times are ISO 8601 strings and tuples are lists, so it equals `json.loads(result.json())`.
        """
        return _with_lists(msgspec.to_builtins(self._plain()))  # type: ignore[no-any-return]

    def json(self, *, indent: int | None = None) -> str:
        """Return the result as JSON on one line, or on several with `indent` spaces for each level."""
        encoded = json_bytes(self._plain()).decode()
        return encoded if indent is None else msgspec.json.format(encoded, indent=indent)

    def _summary(self) -> str:
        """Return what `repr` shows after the name of the class."""
        return ""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._summary()}".rstrip() + ">"


class FittedResult(Result, msgspec.Struct, frozen=True, kw_only=True):
    """What every text that is fitted to a budget says of itself: search results, contexts and packs."""

    text: str
    token_count: int
    token_budget: int | None
    included: int
    """How many memories are in the text."""
    omitted: int
    """How many relevant memories did not fit into the budget."""
    tokens_omitted: int
    """What the texts of those would cost."""
    irrelevant: int
    """How many candidates were below `min_relevance`."""
    complete: bool
    """Whether everything relevant is included, and nothing of it was cut."""
    matched: bool
    """False if nothing matched: then these are the newest and most important that pass the filters."""
    smallest_budget: int | None
    """If nothing fitted: the smallest budget that holds something."""


def _with_lists(value: Any) -> Any:
    """Return nested plain values with lists in the place of tuples, as JSON has them."""
    if isinstance(value, dict):
        return {key: _with_lists(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_with_lists(each) for each in value]
    return value


def quoted(text: str | None, width: int = _WIDTH) -> str:
    """Return the first words of a text on one line in quotation marks, for a `repr`."""
    words = " ".join((text or "")[: 4 * width].split())
    return repr(words if len(words) <= width else words[: width - 1].rstrip() + "…")
