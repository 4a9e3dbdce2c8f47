"""Lists of memories as plain text or JSON. Stored text is indented and cleaned, so that it cannot pose as ours."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from satchel.model.memory import Memory, compact

__all__ = [
    "DETAILS",
    "INDENT",
    "Detail",
    "as_json",
    "clean",
    "entry",
    "entry_json",
    "indented",
    "join_entries",
    "join_json",
    "json_inside",
]


def as_json(value: object) -> str:
    """Compact, with all but control characters as they are."""
    return msgspec.json.encode(value).decode()


def json_inside(text: str) -> str:
    """What stands between the quotation marks of a JSON string; parts of a text can be joined in it."""
    return as_json(text)[1:-1]


# Lists of memories as plain text or JSON. Stored text is indented and cleaned, so that it can
# neither look like another entry nor send commands to a terminal.


Detail = Literal["summary", "standard", "full"]
DETAILS: tuple[str, ...] = get_args(Detail)

SNIPPET = 300
INDENT = "    "

_LISTED = (
    "title", "scope", "status", "superseded_by", "valid_from", "invalid_at", "tags", "speaker",
    "importance", "confidence", "at",
)  # fmt: skip
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def entry(
    memory: Memory,
    *,
    short_id: str,
    detail: Detail,
    matched: int = 0,
    overtaken_by: str | None = None,
    alike: int = 0,
    relevance: float | None = None,
) -> str:
    """A heading line, and below it as much of the text as the detail asks for; a snippet is of what matched.

    `overtaken_by` is the short id of a newer memory that tells this one anew, `alike` the number of memories that
    say the same and are not listed, `relevance` how sure a hit is.
    """
    facts = [memory.at.date().isoformat()]
    facts += [memory.scope.project] if memory.scope.project else []
    facts += [memory.status] if memory.status != "active" else []
    facts += [f"from {memory.valid_from.date()}"] if memory.valid_from else []
    facts += [f"until {memory.invalid_at.date()}"] if memory.invalid_at else []
    facts += [f"#{tag}" for tag in memory.tags]
    facts += [f"older; see {overtaken_by}"] if overtaken_by else []
    facts += [f"+{alike} alike"] if alike else []
    title = memory.headline() if detail == "summary" else memory.title
    sure = [] if relevance is None else [f"{100 * relevance:.0f}%"]
    heading = [short_id, *sure, f"[{memory.kind}]", *([title] if title else []), f"({', '.join(facts)})"]
    lines = [clean(" ".join(heading)).replace("\n", " ")]
    if detail != "summary":
        lines.append(indented(body(memory.text, detail, matched)))
    return "\n".join(lines) + "\n"


def indented(text: str) -> str:
    """Stored text, cleaned, away from the margin, where only our own lines begin."""
    return "\n".join(f"{INDENT}{line}".rstrip() for line in clean(text).split("\n"))


def join_entries(entries: Sequence[str]) -> str:
    return "\n".join(entries)


def entry_json(
    memory: Memory,
    *,
    detail: Detail,
    score: float | None = None,
    relevance: float | None = None,
    parts: Mapping[str, float] | None = None,
    passage: tuple[int, int] | None = None,
    matched: int = 0,
    overtaken_by: str | None = None,
    duplicates: Sequence[str] = (),
) -> str:
    """One memory as a JSON object on a line of its own, without what only its keeper needs."""
    fields = compact(memory)
    chosen: dict[str, Any] = {"id": memory.id}
    if score is not None:
        chosen["score"] = round(score, 6)
    if relevance is not None:
        chosen["relevance"] = round(relevance, 3)
    if parts is not None:
        chosen["parts"] = parts
    if passage is not None:
        chosen["passage"] = passage
    if overtaken_by is not None:
        chosen["overtaken_by"] = overtaken_by
    if duplicates:
        chosen["duplicates"] = duplicates
    chosen["kind"], chosen["tier"] = memory.kind, memory.tier
    if detail == "summary":
        return as_json(chosen | {"title": memory.headline(), "tokens": memory.tokens})
    chosen |= {name: fields[name] for name in _LISTED if name in fields}
    return as_json(chosen | {"text": body(memory.text, detail, matched)})


def join_json(key: str, objects: Sequence[str], **facts: object) -> str:
    tail = "".join(f",{as_json(name)}:{as_json(value)}" for name, value in facts.items())
    return f"{{{as_json(key)}:[" + ",\n".join(objects) + f"]{tail}}}\n"


def body(text: str, detail: Detail, matched: int = 0) -> str:
    """The text whole, or cut at a word after at most 300 characters, from where it matched."""
    if detail == "full" or len(text) <= SNIPPET:
        return text
    # What matched at the very end comes with what stands before it.
    start = min(matched, len(text) - SNIPPET)
    if start > 0 and (word := re.compile(r"(?<=\s)\S").search(text, start)):
        start = word.start()
    cut = text[start : start + SNIPPET]
    if start + SNIPPET < len(text):
        words = re.match(r"(?s).*\S(?=\s)", cut)
        cut = (words.group() if words and len(words.group()) > SNIPPET // 2 else cut).rstrip() + "…"
    return ("…" if text[:start].strip() else "") + cut.rstrip()


def clean(text: str) -> str:
    """Without control characters; line ends as plain newlines."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n").replace("\r", "\n"))
