"""Tools that read: mem_search, mem_list, mem_get, mem_timeline, mem_stats, mem_context, context_pack."""

from collections.abc import Collection, Sequence
from typing import Any

from satchel.api.satchel import Satchel
from satchel.errors import InputError
from satchel.fitting.context import BlockFacts, Frame
from satchel.fitting.engine import Count
from satchel.fitting.listing import Detail, Portion, as_json, clean, entry
from satchel.model.checks import MAX_LIMIT
from satchel.model.memory import KINDS, Memory, Relation
from satchel.server.arguments import MAX_TOKENS, ids
from satchel.server.mcp.answers import (
    RELEVANT,
    Allowance,
    Answer,
    Footer,
    answer_of,
    cursor_for,
    nothing_fitted,
    with_footer,
)
from satchel.server.mcp.tool import CURSOR, detail_level, tool_for
from satchel.server.mcp.tool_context import ToolContext

__all__ = [
    "CONTEXT",
    "GET",
    "LIST",
    "NOTHING_MATCHED",
    "NOTHING_RELEVANT",
    "PACK",
    "SEARCH",
    "STATS",
    "TIMELINE",
    "UNMATCHED",
    "entries",
]


NOTHING_MATCHED = "Nothing matched."
NOTHING_RELEVANT = "Nothing relevant. min_relevance=0 shows weak matches."
UNMATCHED = "Nothing matched the query; the newest and most important that pass the filters:"


def entries(bag: Satchel, memories: Sequence[Memory], detail: Detail, **more: Any) -> list[Portion]:
    """Return one portion of text for each memory."""
    pairs = zip(memories, bag.short_ids(memories), strict=True)
    return [Portion(entry(memory, short_id=name, detail=detail), name=name, **more) for memory, name in pairs]


def _search(context: ToolContext, given: dict[str, Any]) -> Answer:
    if (page := context.continued("mem_search", given)) is not None:
        return page
    hits = context.view(given).search(**context.options(given))
    section = "" if hits.matched else UNMATCHED
    named = zip(hits.short_ids, hits.entries, strict=True)
    portions = [Portion(text, section=section, name=name) for name, text in named]
    nothing = NOTHING_RELEVANT if hits.irrelevant else NOTHING_MATCHED
    noun = RELEVANT if hits.matched else "memories"
    return context.listed("mem_search", portions, given, nothing=nothing, noun=noun)


def _get(context: ToolContext, given: dict[str, Any]) -> Answer:
    if (page := context.continued("mem_get", given)) is not None:
        return page
    if not given["id"]:
        raise InputError("mem_get needs id")
    portions, missing = [], []
    for identifier in given["id"]:
        try:
            portions.append(_whole(context.bag, identifier))
        except InputError as error:
            missing.append(error)
    if not portions:
        raise missing[0]
    portions += [Portion(f"{clean(str(error))}\n") for error in missing]
    noun = "ids" if missing else "memories"
    return context.listed("mem_get", portions, given, nothing=NOTHING_MATCHED, noun=noun)


def _whole(bag: Satchel, identifier: str) -> Portion:
    """Return a memory in full: its heading, its relations, its text."""
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


def _timeline(context: ToolContext, given: dict[str, Any]) -> Answer:
    if (page := context.continued("mem_timeline", given)) is not None:
        return page
    asked = context.options(given)
    detail = asked.pop("detail")
    found = context.bag.timeline(**asked)
    focus = entries(context.bag, [found.focus], "full", splits=True)[0]
    before = entries(context.bag, found.before, detail)
    after = entries(context.bag, found.after, detail)
    # By turns from the focus outwards: where it is tight, the far ends go.
    portions = [
        *(portion._replace(rank=2 * (len(before) - place) - 1) for place, portion in enumerate(before)),
        focus._replace(text=f"▶ {focus.text}"),
        *(portion._replace(rank=2 * place + 2) for place, portion in enumerate(after)),
    ]
    return context.listed("mem_timeline", portions, given, nothing=NOTHING_MATCHED, in_turn=True)


def _list(context: ToolContext, given: dict[str, Any]) -> Answer:
    if (page := context.continued("mem_list", given)) is not None:
        return page
    bag, asked = context.view(given), context.options(given)
    per_page, detail = asked.pop("limit"), asked.pop("detail")
    found = bag.recent(**asked, limit=MOST_LISTED + 1)
    portions = entries(bag, found[:MOST_LISTED], detail)
    if len(found) > MOST_LISTED:
        oldest = found[MOST_LISTED - 1].at.date()
        portions.append(Portion(f"There are older ones: until={oldest} lists them.\n"))
    return context.listed("mem_list", portions, given, nothing=NOTHING_MATCHED, per_page=per_page)


def _stats(context: ToolContext, given: dict[str, Any]) -> Answer:
    if (page := context.continued("mem_stats", given)) is not None:
        return page
    bag = context.view(given)
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
    return context.listed("mem_stats", portions, given, nothing=NOTHING_MATCHED, noun="lines")


# How many memories a list and its further pages show.
MOST_LISTED = 1_000
_PAGED = {"max_tokens": MAX_TOKENS, "cursor": CURSOR}

SEARCH = tool_for(
    "search",
    "Find memories by meaning and words, best first. Begin with detail_level=summary, then mem_get.",
    _search,
    own={"cursor": CURSOR},
)
GET = tool_for(
    "get",
    "Read memories whole, with their relations.",
    _get,
    own={"id": ids("one id or several"), **_PAGED},
    required=("id",),
)
LIST = tool_for(
    "recent",
    "List memories by date, newest first, without a query.",
    _list,
    own={"detail_level": detail_level("summary"), **_PAGED},
)
TIMELINE = tool_for(
    "timeline",
    "What came just before and after a memory, in its session or project.",
    _timeline,
    own={"detail_level": detail_level("standard"), **_PAGED},
)
STATS = tool_for("stats", "How much is remembered, by kind, tier and project.", _stats, own=_PAGED)


# Tools that put a context together: mem_context, context_pack.


MOST_PACKED = 1_000
SESSIONS = 5
PROMPTS = 5
PARTS = ("excerpt", "summary", "title")
_CHOSEN = ("kind", "tags", "since", "until", "as_of")
_OBSERVED = tuple(kind for kind in KINDS if kind not in ("summary", "prompt"))


def _context(context: ToolContext, given: dict[str, Any]) -> Answer:
    if (page := context.continued("mem_context", given)) is not None:
        return page
    if not (query := given.get("query", "")).strip():
        portions = _recent(context.view(given), given)
        return context.listed("mem_context", portions, given, nothing="Nothing is remembered here yet.")
    return _framed(context, given, query)


def _framed(context: ToolContext, given: dict[str, Any], query: str) -> Answer:
    """Return the context block for a query, with its footer."""
    bag, allowance = context.view(given), context.allowance(given)
    # Of the question, not of the answer: it is part of what is counted.
    cursor = None if allowance.given else cursor_for("mem_context", [Portion(as_json(given))], allowance.tokens)
    footers = _Footers(context.count, allowance, noun=RELEVANT, cursor=cursor)
    block = bag.context(
        **context.options(given), token_budget=allowance.tokens, pins="best_effort", ids=True, frame=footers
    )
    if not block.included:
        if block.smallest_budget is not None:
            return nothing_fitted(
                block.smallest_budget, block.included + block.omitted, allowance, context.count, noun=RELEVANT
            )
        return context.remark(NOTHING_RELEVANT if block.irrelevant else NOTHING_MATCHED, given)
    wanted = block.included + block.omitted
    if block.complete:
        cursor = None
    elif cursor is not None:
        # What is there in part comes again in full: its id, to ask for it, is not in every format.
        short = [each for each in block.receipt.entries if each.reason == "over budget" or each.level in PARTS]
        left = entries(bag, [bag.get(each.id) for each in short], given["detail"])
        context.keep_for_cursor(cursor, "mem_context", left, total=wanted)
    text, tokens, above, footer = footers.final(block.body, block.facts, cursor) or (
        block.text, block.token_count, "", None,
    )  # fmt: skip
    return answer_of(
        text,
        tokens,
        allowance,
        shown=block.included,
        total=wanted,
        cursor=cursor,
        above=above,
        footer=footer,
    )


class _Footers(Frame):
    """The frame of a context block: its footer, and a line above it if nothing matched the query."""

    def __init__(self, count: Count, allowance: Allowance, *, noun: str, cursor: str | None = None) -> None:
        self._count = count
        self._allowance = allowance
        self._noun = noun
        self._cursor = cursor

    def write(self, body: str, facts: BlockFacts) -> str:
        return self._footed(body, facts, self._cursor)[0]

    def within(self, budget: int) -> "_Footers":
        allowance = self._allowance._replace(tokens=budget)
        return _Footers(self._count, allowance, noun=self._noun, cursor=self._cursor)

    def final(
        self, body: str, facts: BlockFacts, cursor: str | None = None
    ) -> tuple[str, int, str, Footer | None] | None:
        """The block with the footers that are true once all is chosen, and its tokens; None where they do not fit.

        What turned out to be said already was not left out for lack of room, and the cursor may lead nowhere. The
        result also has what stands above the footer, and the footer.
        """
        made = self._footed(body, facts, cursor)
        return made if made[1] <= self._allowance.tokens else None

    def _footed(self, body: str, facts: BlockFacts, cursor: str | None) -> tuple[str, int, str, Footer | None]:
        footer = Footer(
            budget=self._allowance.tokens,
            shown=facts.included,
            total=facts.included + facts.omitted,
            whole=facts.complete,
            noun=self._noun if facts.matched else "memories",
            cursor=None if facts.complete else cursor,
            asked=self._allowance.given,
            shortens=self._allowance.shortens,
        )
        above = body if facts.matched or not body else f"{UNMATCHED}\n{body}"
        return *with_footer(above, footer, self._count), above, footer


def _recent(bag: Satchel, given: dict[str, Any]) -> list[Portion]:
    """Return pinned memories, then the newest sessions, prompts and observations; the oldest are cut first."""
    limit, detail = given["limit"], given["detail"]
    chosen = {name: given[name] for name in _CHOSEN if name in given}
    pinned = bag.recent(pinned=True, limit=limit, **chosen)
    told = {memory.id for memory in pinned}

    def newest(kinds: Collection[str], most: int) -> list[Memory]:
        wanted = [kind for kind in kinds if kind in chosen.get("kind", kinds)]
        if not wanted:
            return []
        found = bag.recent(**chosen | {"kind": wanted}, limit=min(most + len(told), MAX_LIMIT))
        return [memory for memory in found if memory.id not in told][:most]

    sections = [
        ("## Pinned", pinned, 0),
        ("## Sessions", newest(("summary",), min(limit, SESSIONS)), limit),
        ("## Prompts", newest(("prompt",), min(limit, PROMPTS)), limit),
        ("## Observations", newest(_OBSERVED, limit), limit),
    ]
    return [
        portion._replace(rank=first + place)
        for section, memories, first in sections
        for place, portion in enumerate(entries(bag, memories, detail, section=section))
    ]


def _pack(context: ToolContext, given: dict[str, Any]) -> Answer:
    bag, allowance = context.view(given), context.allowance(given)
    noun = RELEVANT if (given.get("query") or "").strip() else "memories"
    footers = _Footers(context.count, allowance, noun=noun)
    pack = bag.context_pack(
        **context.options(given),
        token_budget=allowance.tokens,
        # Whatever the budget, so that "of Y" is how many there are and not how many were looked at.
        limit=MOST_PACKED,
        pins="best_effort",
        frame=footers,
    )
    if not pack.memories:
        if pack.smallest_budget is not None:
            return nothing_fitted(pack.smallest_budget, pack.omitted, allowance, context.count, noun=noun)
        return context.remark(NOTHING_RELEVANT if pack.irrelevant else NOTHING_MATCHED, given)
    text, tokens, above, footer = footers.final(pack.body, pack.facts) or (pack.text, pack.token_count, "", None)
    total = pack.included + pack.omitted
    return answer_of(text, tokens, allowance, shown=len(pack.memories), total=total, above=above, footer=footer)


CONTEXT = tool_for(
    "context",
    "Context for your own task: what matters for the query, or without one the recent sessions, prompts, notes.",
    _context,
    own={"cursor": CURSOR},
)
PACK = tool_for("context_pack", "Export whole memories as markdown, to paste into another AI service.", _pack)
