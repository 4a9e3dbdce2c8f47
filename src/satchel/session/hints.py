"""Budget hints in tool definitions, such as "Budget allows ~120 matches."

The tool's name decides what is counted. The assumed cost of one item in tokens is: file path 25, search match 40,
line 12, row 60, other result 100, KB of text 300. Numbers are rounded down to two significant digits, so that a
hint does not change with every call.
"""

from collections.abc import Mapping
from reprlib import repr as shortened
from typing import Any, NamedTuple

from satchel.errors import InputError
from satchel.model.checks import MAX_BUDGET
from satchel.model.patterns import lazy_pattern

__all__ = ["with_hint"]


class _Noun(NamedTuple):
    one: str
    many: str
    tokens: float


_FILES = _Noun("file", "files", 25)
_MATCHES = _Noun("match", "matches", 40)
_LINES = _Noun("line", "lines", 12)
_ROWS = _Noun("row", "rows", 60)
_RESULTS = _Noun("result", "results", 100)
_KB = _Noun("KB", "KB", 300)

# The first row that has a word of the tool's name wins. A tool that reads files returns lines, so lines come first.
_NOUN_OF_TOOL: tuple[tuple[set[str], _Noun], ...] = (
    ({"read", "cat", "view", "head", "tail", "log", "logs", "diff", "lines"}, _LINES),
    ({"files", "glob", "ls", "dir", "directory", "folder", "tree"}, _FILES),
    ({"grep", "rg", "match", "matches", "content", "code", "pattern"}, _MATCHES),
    ({"sql", "query", "select", "rows", "records", "table"}, _ROWS),
    ({"search", "find", "list", "results"}, _RESULTS),
)
_NOUN_OF_PARAMETER = {
    "file": _FILES,
    "files": _FILES,
    "match": _MATCHES,
    "matches": _MATCHES,
    "line": _LINES,
    "lines": _LINES,
    "row": _ROWS,
    "rows": _ROWS,
    "records": _ROWS,
}
_LIMITS = {
    *("limit", "head_limit", "row_limit", "line_limit", "result_limit", "file_limit", "match_limit"),
    *("max_results", "max_files", "max_matches", "max_lines", "max_rows", "max_records", "max_items", "max_hits"),
    *("max_entries", "max_count", "max_num_results", "num_results", "n_results", "count"),
    *("top_k", "top_n", "page_size", "per_page"),
}
_PLACES = ("inputSchema", "input_schema", "parameters")
_WORD = lazy_pattern(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_SENTENCE = lazy_pattern(r"\s*Budget allows (?:~[0-9,]+|less than 1) \w+\.")
_MARK = lazy_pattern(r"\s*\(budget allows up to (?P<most>[0-9]+)(?:, in place of (?P<own>[0-9]+))?\)")


def with_hint(schema: Mapping[str, Any], *, allowance: int, item_tokens: float | None = None) -> dict[str, Any]:
    """Return a copy of a tool definition with a budget hint, which replaces an earlier hint.

    Definitions of MCP, Anthropic and OpenAI are supported; any other shape is returned unchanged. The description
    gets a sentence, and each parameter that limits the number of items says how many fit. Its default becomes that
    number unless it is already smaller. A required parameter gets no default, because the model always gives it.
    """
    copy: dict[str, Any] = _copied(schema)
    tool = copy["function"] if isinstance(copy.get("function"), dict) else copy
    parameters: dict[str, Any] = next((tool[key] for key in _PLACES if isinstance(tool.get(key), dict)), {})
    said = tool.get("description") or ""
    if not (parameters or copy.get("type") == "function") or not isinstance(said, str):
        return copy
    noun = _noun_of_tool(tool.get("name"))
    limits = {name: _noun_of_parameter(name) or noun or _RESULTS for name in _limits(parameters)}
    for name, items in limits.items():
        _hint(parameters, name, _fitting(items, allowance, item_tokens))
    sentence = _sentence(next(iter(limits.values()), noun or _KB), allowance, item_tokens)
    tool["description"] = f"{_SENTENCE.sub('', said)} {sentence}".strip()
    return copy


def _hint(schema: dict[str, Any], name: str, most: int) -> None:
    """State in the parameter how many items fit, and lower its default to that number."""
    parameter = schema["properties"][name]
    said = parameter.get("description") or ""
    if not isinstance(said, str):
        return
    mark = _MARK.search(said)
    own = parameter.get("default")
    if mark and mark["own"]:
        own = int(mark["own"])
    elif mark and own == int(mark["most"]):
        own = None  # set by an earlier hint, not by the tool
    least, highest = _bounds(parameter)
    most = max(least, min(most, highest))
    text = f"budget allows up to {most}"
    required = schema.get("required")
    if not (isinstance(required, list) and name in required):
        counts = isinstance(own, int) and not isinstance(own, bool) and own > 0
        if counts and own >= most:
            text += f", in place of {own}"
        parameter["default"] = own if counts and own < most else most
    parameter["description"] = f"{_MARK.sub('', said)} ({text})".strip()


def _limits(schema: dict[str, Any]) -> list[str]:
    """Return the names of the parameters that limit the number of items."""
    properties = schema.get("properties")
    return [
        name
        for name, parameter in (properties.items() if isinstance(properties, dict) else ())
        if isinstance(parameter, dict)
        and "_".join(_words(name)) in _LIMITS
        and "enum" not in parameter
        and any(_is_number(form) for form in _forms(parameter))
    ]


def _forms(parameter: dict[str, Any]) -> list[dict[str, Any]]:
    branches = parameter.get("anyOf")
    return [
        parameter,
        *(branch for branch in (branches if isinstance(branches, list) else ()) if isinstance(branch, dict)),
    ]


def _is_number(form: dict[str, Any]) -> bool:
    kind = form.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    return "integer" in kinds or "number" in kinds


def _bounds(parameter: dict[str, Any]) -> tuple[int, int]:
    """Return the minimum and maximum of the parameter; at least 1, because 0 often means no limit."""
    least, highest = 1.0, float(MAX_BUDGET)
    for form in _forms(parameter):
        for key, shift in (("minimum", 0), ("exclusiveMinimum", 1)):
            if _is_plain(form.get(key)):
                least = max(least, form[key] + shift)
        for key, shift in (("maximum", 0), ("exclusiveMaximum", -1)):
            if _is_plain(form.get(key)):
                highest = min(highest, form[key] + shift)
    return int(least), int(highest)


def _is_plain(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15


def _noun_of_tool(name: object) -> _Noun | None:
    words = set(_words(name)) if isinstance(name, str) else set()
    return next((noun for known, noun in _NOUN_OF_TOOL if known & words), None)


def _noun_of_parameter(name: str) -> _Noun | None:
    return next((_NOUN_OF_PARAMETER[word] for word in _words(name) if word in _NOUN_OF_PARAMETER), None)


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def _fitting(noun: _Noun, allowance: int, item_tokens: float | None) -> int:
    tokens = noun.tokens if item_tokens is None else item_tokens
    if isinstance(tokens, bool) or not isinstance(tokens, int | float) or not 0 < tokens < float("inf"):
        raise InputError(f"item_tokens {shortened(tokens)} is not a number above 0")
    number = int(max(0, allowance) / tokens)
    coarse = int(10 ** max(0, len(str(number)) - 2))
    return number // coarse * coarse


def _sentence(noun: _Noun, allowance: int, item_tokens: float | None) -> str:
    number = _fitting(noun, allowance, item_tokens)
    if not number:
        return f"Budget allows less than 1 {noun.one}."
    return f"Budget allows ~{number:,} {noun.one if number == 1 else noun.many}."


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list | tuple) else value
