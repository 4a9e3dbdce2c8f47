"""Parse answers independently of the code that wrote them, to compare what they state with what is true."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

__all__ = ["Footers", "footers", "shown_in", "told_of"]

_NUMBER = r"\d{1,3}(?:,\d{3})*"
_FOOTERS = re.compile(
    r"(?:\A|\n)"
    r"(?:(?P<remark>(?:ignored: |\w+ was read as ).*)\n)?"
    r"(?:➡ The rest: cursor=(?P<cursor>\S+)\n)?"
    rf"(?:⚡ Budget: ~(?P<used>{_NUMBER})/(?P<budget>{_NUMBER}) tokens used\. "
    rf"(?P<shown>{_NUMBER}) of (?P<total>{_NUMBER}) (?P<noun>(?:relevant )?\w+) shown\. "
    r"Increase max_tokens(?: or use detail_level=summary)? for more\.\n)?"
    rf"📏 (?:(?P<relevant>{_NUMBER}) relevant memor(?:y|ies), )?"
    rf"(?:(?P<listed>{_NUMBER}) of (?P<of>{_NUMBER}) memories, )?"
    rf"~(?P<tokens>{_NUMBER})(?: of (?P<limit>{_NUMBER}))? tokens\s*\Z"
)
# A short id, or a whole one.
_ID = r"(?:[a-z2-7]{4,8}|[0-9a-f-]{36})"
_ENTRY = re.compile(rf"(?m)^(?:▶ )?{_ID} (?:\d+% )?\[[a-z]+\] ")
_UNKNOWN = re.compile(r"(?m)^no memory has the id ")
_LISTED = re.compile(r"(?m)^[*-] ")
_PACKED = re.compile(r"(?m)^## \[")
_FOUND = re.compile(r"(?m)^\S.* \(line \d+, ~[\d,]+ tokens?\)(?: …)?$")
_OWN_LINE = re.compile(r"(?m)^(?! |## |$).+")
_BEGINS = re.compile(rf"(?m)^(?:▶ )?({_ID}) (?:(?:\d+% )?\[[a-z]+\].*|(\(continued\)))\n")
_SECTION = re.compile(r"(?m)^\n## .*\n|\A## .*\n")
_OUTLINE = re.compile(r"(?m)(?:^    .*\n?)+")


class Footers(NamedTuple):
    """The numbers of the last lines; those of the ⚡ line are None if it is missing."""

    body: str
    tokens: int
    used: int | None
    budget: int | None
    shown: int | None
    total: int | None
    noun: str | None
    cursor: str | None
    relevant: int | None
    """The number of relevant memories stated in the last line."""
    limit: int | None
    """The budget stated in the last line."""
    remark: str | None
    """What the answer says of the call itself."""
    listed: int | None
    """How many of `of` memories a page has that ends at the limit of the call."""
    of: int | None


def footers(text: str) -> Footers:
    found = _FOOTERS.search(text)
    assert found is not None, f"no footer at the end of {text[-300:]!r}"
    said: dict[str, Any] = found.groupdict()
    for name in ("tokens", "used", "budget", "shown", "total", "relevant", "limit", "listed", "of"):
        said[name] = None if said[name] is None else int(said[name].replace(",", ""))
    return Footers(body=text[: found.start()], **said)


def shown_in(body: str, tool: str, arguments: dict[str, Any]) -> int:
    """Count the entries in an answer; stored text is always indented, so unindented lines can be counted."""
    if tool == "context_pack":
        return len(_PACKED.findall(body))
    if tool == "mem_context" and arguments.get("query"):
        return len(json.loads(body)) if arguments.get("format") == "raw" else len(_LISTED.findall(body))
    if tool == "mem_stats":
        return len(_OWN_LINE.findall(body)) - body.count("projects:\n")
    if tool == "sdd_get_context":
        outlines = 0 if arguments.get("detail_level") == "full" else len(_OUTLINE.findall(body))
        return outlines + len(_OWN_LINE.findall(body))
    return sum(len(each.findall(body)) for each in (_ENTRY, _UNKNOWN, _FOUND))


def told_of(bodies: Iterable[str]) -> dict[str, str]:
    """Join what several pages say about each memory, by id; each begins once and may be continued."""
    texts: dict[str, str] = {}
    for body in bodies:
        for name, continued, text in _entries(body):
            assert continued == (name in texts), f"{name} comes at the wrong time"
            assert not continued or texts[name].endswith(" …") or not texts[name], f"{name} was whole already"
            texts[name] = texts.get(name, "").removesuffix(" …" if continued else "") + text
    return texts


def _entries(body: str) -> Iterator[tuple[str, bool, str]]:
    _, *parts = _BEGINS.split(_SECTION.sub("", body))
    for name, continued, below in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        lines = below.removesuffix("\n").split("\n")
        stored = [line[4:] for line in lines if not line or line.startswith("    ")]
        yield name, continued is not None, "\n".join(stored)
