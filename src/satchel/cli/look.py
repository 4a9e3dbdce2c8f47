"""Commands that read memories: get, list, search, context, timeline, history, stats."""

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from satchel.bag import Satchel
from satchel.cli.explanation import explain_hits
from satchel.cli.options import (
    BUDGET,
    COUNT,
    LIMIT,
    as_of_option,
    detail_option,
    embedder_option,
    ended_option,
    explain_option,
    filter_options,
    json_option,
    open_store_for,
    scope_options,
    store_options,
)
from satchel.cli.output import note, print_json, print_listing, print_rows, print_text
from satchel.limits import MAX_LIMIT
from satchel.memory import Change, Memory, compact
from satchel.render import Detail, clean, entry, entry_json, join_entries, join_json
from satchel.results import ContextBlock, Hits

__all__ = [
    "context_command",
    "get_command",
    "history_command",
    "list_command",
    "search_command",
    "stats_command",
    "timeline_command",
]


@click.command("get")
@click.argument("identifier", metavar="ID")
@scope_options
@store_options
@json_option
def get_command(identifier: str, scope: dict[str, str | None], db: str | None, as_json: bool) -> None:
    """Show one memory whole, with its relations."""
    with open_store_for(db, scope) as bag:
        memory = bag.get(identifier)
        relations = bag.relations(memory.id)
        if as_json:
            print_json(compact(memory) | {"relations": relations})
            return
        print_listing(entry(memory, short_id=memory.id, detail="full"))
        # At the margin, where no line of a text can stand.
        for relation in relations:
            other = relation.target if relation.source == memory.id else relation.source
            arrow = "→" if relation.source == memory.id else "←"
            print_text(f"{arrow} {relation.kind} {other} ({relation.strength:g})\n")


@click.command("list")
@click.option("--limit", type=LIMIT, default=20, show_default=True, help="At most this many.")
@filter_options
@ended_option
@scope_options
@detail_option("summary")
@store_options
@json_option
def list_command(
    limit: int,
    chosen: dict[str, Any],
    ended: bool,
    scope: dict[str, str | None],
    detail: Detail,
    db: str | None,
    as_json: bool,
) -> None:
    """Show the newest memories."""
    with open_store_for(db, scope) as bag:
        found = bag.recent(limit=min(limit + 1, MAX_LIMIT), ended=ended, **chosen)
        memories = found[:limit]
        if as_json:
            objects = [entry_json(memory, detail=detail) for memory in memories]
            print_text(join_json("memories", objects))
        elif memories:
            print_listing(_entries(bag, memories, detail))
            if len(found) > limit:
                note(f"the newest {limit:,}; there are more: --limit")
        else:
            note("no memories here")


@click.command("search")
@click.argument("query")
@click.option("--limit", type=LIMIT, default=10, show_default=True, help="At most this many.")
@click.option("--token-budget", type=BUDGET, help="At most this many tokens in what is printed.")
@click.option("--counter", metavar="NAME", help="Count with this counter or model name.")
@explain_option
@filter_options
@ended_option
@as_of_option
@scope_options
@detail_option("standard")
@embedder_option
@store_options
@json_option
def search_command(
    query: str,
    limit: int,
    token_budget: int | None,
    counter: str | None,
    explain: bool,
    chosen: dict[str, Any],
    ended: bool,
    as_of: str | None,
    scope: dict[str, str | None],
    detail: Detail,
    embedder: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Find memories by what QUERY says or asks, best first."""
    with open_store_for(db, scope, counter=counter, embedder=embedder) as bag:
        hits = bag.search(
            query,
            limit=limit,
            token_budget=token_budget,
            ended=ended,
            detail=detail,
            format="json" if as_json else "text",
            explain=explain,
            as_of=as_of,
            **chosen,
        )
        if as_json:
            print_text(hits.text)
        else:
            print_listing(hits.text)
            if explain:
                # What is printed to be handed on stays within its budget.
                explain_hits(hits, bag.short_ids([hit.memory for hit in hits]), apart=token_budget is not None)
        if remark := _remark(hits, len(hits), hits.omitted, token_budget):
            note(remark)
        _tell_of_words_alone(bag, embedder)


@click.command("context")
@click.argument("query", required=False)
@click.option(
    "--tokens",
    "--token-budget",
    "token_budget",
    type=BUDGET,
    default=2000,
    show_default=True,
    help="At most this many tokens in what is printed.",
)
@click.option("--counter", metavar="NAME", help="Count with this counter or model name.")
@click.option(
    "--format", "layout", type=click.Choice(["markdown"]), default="markdown", show_default=True, help="Its form."
)
@click.option("--limit", type=LIMIT, help="Choose among this many; as many as could fit if none is given.")
@explain_option
@filter_options
@ended_option
@as_of_option
@scope_options
@embedder_option
@store_options
@json_option
def context_command(
    query: str | None,
    token_budget: int,
    counter: str | None,
    layout: Any,
    limit: int | None,
    explain: bool,
    chosen: dict[str, Any],
    ended: bool,
    as_of: str | None,
    scope: dict[str, str | None],
    embedder: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Pack what matters for QUERY into one text. Without QUERY what is pinned, then the newest."""
    with open_store_for(db, scope, counter=counter, embedder=embedder) as bag:
        block = bag.context(
            query,
            token_budget=token_budget,
            format=layout,
            limit=limit,
            ended=ended,
            frame=_context_json if as_json else None,
            explain=explain,
            as_of=as_of,
            **chosen,
        )
        print_text(block.text)
        if explain:
            explain_hits(block.hits, bag.short_ids([hit.memory for hit in block.hits]), apart=True, titled=True)
        nothing = "no memories here" if query is None else "nothing matched"
        if remark := _remark(block, block.facts_included, block.facts_omitted, token_budget, nothing=nothing):
            note(remark)
        if query is not None:
            _tell_of_words_alone(bag, embedder)


@click.command("timeline")
@click.argument("identifier", metavar="ID")
@click.option("--before", type=COUNT, default=5, show_default=True, help="How many before it.")
@click.option("--after", type=COUNT, default=5, show_default=True, help="How many after it.")
@scope_options
@detail_option("standard")
@store_options
@json_option
def timeline_command(
    identifier: str,
    before: int,
    after: int,
    scope: dict[str, str | None],
    detail: Detail,
    db: str | None,
    as_json: bool,
) -> None:
    """Show what came before and after the memory ID."""
    with open_store_for(db, scope) as bag:
        line = bag.timeline(identifier, before=before, after=after)
        if as_json:
            parts = [
                _inner_json("before", line.before, detail),
                _inner_json("focus", [line.focus], "full"),
                _inner_json("after", line.after, detail),
            ]
            print_text("{" + ",\n".join(parts) + "}\n")
            return
        blocks = [
            _entries(bag, line.before, detail),
            "▶ " + _entries(bag, [line.focus], "full"),
            _entries(bag, line.after, detail),
        ]
        print_listing(join_entries([block for block in blocks if block]))


@click.command("history")
@click.argument("identifier", metavar="ID")
@scope_options
@store_options
@json_option
def history_command(identifier: str, scope: dict[str, str | None], db: str | None, as_json: bool) -> None:
    """Show every change of the memory ID, oldest first."""
    with open_store_for(db, scope) as bag:
        changes = bag.history(identifier)
    if as_json:
        print_json({"history": changes})
    else:
        print_listing("".join(map(_change_lines, changes)))


@click.command("stats")
@scope_options
@store_options
@json_option
def stats_command(scope: dict[str, str | None], db: str | None, as_json: bool) -> None:
    """Count the memories by kind, tier, status and project."""
    with open_store_for(db, scope) as bag:
        stats, embedder = bag.stats(), bag.embedder
    if as_json:
        print_json(msgspec.structs.asdict(stats) | {"embedder": embedder})
        return
    rows = [
        ("memories", f"{stats.memories:,}"),
        ("current", f"{stats.current:,}"),
        ("tokens", f"{stats.tokens:,}"),
        ("relations", f"{stats.relations:,}"),
    ]
    for name in ("kind", "tier", "status", "project"):
        counts: dict[str, int] = getattr(stats, f"by_{name}")
        rows += [(f"{name} {value or '(none)'}", f"{count:,}") for value, count in counts.items()]
    if stats.oldest and stats.newest:
        rows += [("oldest", str(stats.oldest.date())), ("newest", str(stats.newest.date()))]
    print_rows(rows, right=1)
    if embedder:
        print_rows([("embedder", embedder)])


def _entries(bag: Satchel, memories: Sequence[Memory], detail: Detail) -> str:
    names = bag.short_ids(memories)
    entries = [entry(memory, short_id=name, detail=detail) for memory, name in zip(memories, names, strict=True)]
    return "".join(entries) if detail == "summary" else join_entries(entries)


def _inner_json(key: str, memories: Sequence[Memory], detail: Detail) -> str:
    """One member of a JSON object, without the braces around it."""
    return join_json(key, [entry_json(memory, detail=detail) for memory in memories]).strip()[1:-1]


def _context_json(block: ContextBlock) -> str:
    """A block as JSON, with what a program may want to know beside its text."""
    told = ("text", "token_count", "facts_included", "facts_omitted", "tier_breakdown")
    return msgspec.json.encode({name: getattr(block, name) for name in told}).decode() + "\n"


def _remark(
    found: Hits | ContextBlock,
    kept: int,
    omitted: int,
    budget: int | None,
    *,
    nothing: str = "nothing matched",
) -> str | None:
    """What the output leaves unsaid: nothing matched, nothing fitted, or something was left out."""
    if not kept and not omitted:
        return nothing
    if budget is None:
        return None
    if not kept:
        return (
            f"nothing fitted into {budget:,} tokens: {omitted} matched, "
            f"the smallest needs a budget of {found.smallest_budget:,}"
        )
    left_out = f"; {omitted} more did not fit" if omitted else ""
    return f"{found.token_count:,} of {budget:,} tokens{left_out}"


def _tell_of_words_alone(bag: Satchel, embedder: str | None) -> None:
    """A question is sent to a server only if its address is given, not because a store records it."""
    if bag.embedder_trouble:
        note(f"searched by words alone: {bag.embedder_trouble}")
    elif embedder is None and (own := bag.embedder) and own.startswith("openai:"):
        note(f"searched by words alone; by meaning too with --embedder {own}")


def _change_lines(change: Change) -> str:
    lines = [f"{change.at.replace(tzinfo=None).isoformat(' ', 'seconds')} {change.action}"]
    for name, (old, new) in change.changes.items():
        if name == "relation":
            lines.append(f"    {new['source']} {new['kind']} {new['target']}")
        else:
            lines.append(f"    {name}: {_short(old)} → {_short(new)}")
    return "".join(clean(line).replace("\n", " ") + "\n" for line in lines)


def _short(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    line = " ".join(text.split())
    return line if len(line) <= 100 else line[:99] + "…"
