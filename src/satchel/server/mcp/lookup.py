"""Tools that look something up: mem_search, mem_get, mem_timeline, mem_stats."""

from collections.abc import Sequence
from typing import Any

from satchel.api.satchel import Satchel
from satchel.errors import InputError
from satchel.fitting.listing import Detail, clean, entry
from satchel.fitting.portions import Portion
from satchel.model.memory import Memory, Relation
from satchel.server.mcp.answers import Answer
from satchel.server.mcp.desk import Desk
from satchel.server.mcp.footers import RELEVANT
from satchel.server.mcp.parameters import (
    AFTER,
    BEFORE,
    CURSOR,
    DETAIL,
    MAX_TOKENS,
    RELEVANCE,
    SINCE,
    WHEN,
    line,
    names,
    number,
)
from satchel.server.mcp.tool import Tool

__all__ = ["GET", "NOTHING_MATCHED", "NOTHING_RELEVANT", "SEARCH", "STATS", "TIMELINE", "UNMATCHED", "entries"]

NOTHING_MATCHED = "Nothing matched."
NOTHING_RELEVANT = "Nothing relevant. min_relevance=0 shows weak matches."
UNMATCHED = "Nothing matched the query; the newest and most important that pass the filters:"


def entries(bag: Satchel, memories: Sequence[Memory], detail: Detail, **more: Any) -> list[Portion]:
    """One portion for each memory."""
    pairs = zip(memories, bag.short_ids(memories), strict=True)
    return [Portion(entry(memory, short_id=name, detail=detail), name=name, **more) for memory, name in pairs]


def _search(desk: Desk, given: dict[str, Any]) -> Answer:
    if (page := desk.continued("mem_search", given)) is not None:
        return page
    hits = desk.view(given).search(
        given["query"],
        limit=given.get("limit", 10),
        detail=given.get("detail_level", "standard"),
        kind=given.get("kind"),
        tags=given.get("tags"),
        since=given.get("since"),
        until=given.get("until"),
        min_relevance=given.get("min_relevance"),
    )
    section = "" if hits.matched else UNMATCHED
    portions = [Portion(text, section=section, name=text.split(" ", 1)[0]) for text in hits.entries]
    nothing = NOTHING_RELEVANT if hits.weak else NOTHING_MATCHED
    noun = RELEVANT if hits.matched else "memories"
    return desk.listed("mem_search", portions, given, nothing=nothing, noun=noun)


def _get(desk: Desk, given: dict[str, Any]) -> Answer:
    if (page := desk.continued("mem_get", given)) is not None:
        return page
    wanted = list(dict.fromkeys(given["ids"]))
    if not wanted:
        raise InputError("mem_get needs ids")
    portions, missing = [], []
    for identifier in wanted:
        try:
            portions.append(_whole(desk.bag, identifier))
        except InputError as error:
            missing.append(error)
    if not portions:
        raise missing[0]
    portions += [Portion(f"{clean(str(error))}\n") for error in missing]
    noun = "ids" if missing else "memories"
    return desk.listed("mem_get", portions, given, nothing=NOTHING_MATCHED, noun=noun)


def _whole(bag: Satchel, identifier: str) -> Portion:
    """A memory in full: what it is, what it is related to, then its text."""
    memory = bag.get(identifier)
    links = bag.relations(memory.id)
    name, *others = bag.short_ids([memory.id, *(_other(memory, each) for each in links)])
    heading, _, text = entry(memory, short_id=name, detail="full").partition("\n")
    relations = "".join(
        f"{'→' if link.source == memory.id else '←'} {link.kind} {other}\n"
        for link, other in zip(links, others, strict=True)
    )
    return Portion(f"{heading}\n{relations}{text}", splits=True, name=name)


def _other(memory: Memory, relation: Relation) -> str:
    return relation.target if relation.source == memory.id else relation.source


def _timeline(desk: Desk, given: dict[str, Any]) -> Answer:
    if (page := desk.continued("mem_timeline", given)) is not None:
        return page
    detail = given.get("detail_level", "standard")
    found = desk.bag.timeline(given["memory_id"], before=given.get("before", 5), after=given.get("after", 5))
    focus = entries(desk.bag, [found.focus], "full", splits=True)[0]
    before = entries(desk.bag, found.before, detail)
    after = entries(desk.bag, found.after, detail)
    # By turns from the focus outwards: where it is tight, the far ends go.
    portions = [
        *(portion._replace(rank=2 * (len(before) - place) - 1) for place, portion in enumerate(before)),
        focus._replace(text=f"▶ {focus.text}"),
        *(portion._replace(rank=2 * place + 2) for place, portion in enumerate(after)),
    ]
    return desk.listed("mem_timeline", portions, given, nothing=NOTHING_MATCHED, in_turn=True)


def _stats(desk: Desk, given: dict[str, Any]) -> Answer:
    if (page := desk.continued("mem_stats", given)) is not None:
        return page
    bag = desk.view(given)
    stats = bag.stats()
    lines = [
        f"{stats.memories:,} memories, {stats.current:,} current, "
        f"{stats.tokens:,} tokens, {stats.relations:,} relations"
    ]
    if stats.oldest and stats.newest:
        lines.append(f"from {stats.oldest.date()} to {stats.newest.date()}")
    for name, counts in (("kinds", stats.by_kind), ("tiers", stats.by_tier), ("statuses", stats.by_status)):
        if counts:
            lines.append(f"{name}: " + ", ".join(f"{key} {count:,}" for key, count in counts.items()))
    portions = [Portion(f"{each}\n") for each in lines]
    portions += [
        Portion(f"{project or '(none)'}: {count:,}\n", section="projects:")
        for project, count in stats.by_project.items()
    ]
    return desk.listed("mem_stats", portions, given, nothing=NOTHING_MATCHED, noun="lines")


SEARCH = Tool(
    "mem_search",
    "Find memories by meaning and words, best first. Begin with detail_level=summary, then mem_get.",
    {
        "query": line(),
        "kind": line(),
        "tags": names(),
        "since": SINCE,
        "until": WHEN,
        "project": line(),
        "limit": number(10, least=1),
        "min_relevance": RELEVANCE,
        "detail_level": DETAIL,
        "max_tokens": MAX_TOKENS,
        "cursor": CURSOR,
    },
    ("query",),
    _search,
)
GET = Tool(
    "mem_get",
    "Read memories whole, with their relations.",
    {"ids": names("ids or unique prefixes"), "max_tokens": MAX_TOKENS, "cursor": CURSOR},
    ("ids",),
    _get,
)
TIMELINE = Tool(
    "mem_timeline",
    "What came just before and after a memory, in its session or project.",
    {
        "memory_id": line(),
        "before": BEFORE,
        "after": AFTER,
        "detail_level": DETAIL,
        "max_tokens": MAX_TOKENS,
        "cursor": CURSOR,
    },
    ("memory_id",),
    _timeline,
)
STATS = Tool(
    "mem_stats",
    "How much is remembered, by kind, tier and project.",
    {"project": line(), "max_tokens": MAX_TOKENS, "cursor": CURSOR},
    (),
    _stats,
)
