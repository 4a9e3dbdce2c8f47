"""Commands that show memories: get, list, similar, timeline, history, stats."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click
import msgspec

from satchel.api.satchel import Satchel
from satchel.api.saving import similar_ones
from satchel.cli.options import detail_option, json_option, open_store_for, operation_options, store_options
from satchel.cli.output import note, print_json, print_listing, print_rows, print_table, print_text
from satchel.fitting.listing import Detail, clean, entry, entry_json, join_entries, join_json
from satchel.model.checks import MAX_LIMIT
from satchel.model.memory import Change, Memory, compact, utc_now

__all__ = [
    "get_command",
    "history_command",
    "list_command",
    "print_memories",
    "similar_command",
    "stats_command",
    "timeline_command",
]

# Characters of a text without a title, in a table.
FIRST_WORDS = 100


@click.command("get")
@operation_options("get")
@store_options
@json_option
def get_command(given: dict[str, Any], scope: dict[str, str | None], db: str | None, as_json: bool) -> None:
    """Show one memory whole, with its relations."""
    with open_store_for(db, scope) as bag:
        memory = bag.get(**given)
        relations = bag.relations(memory.id, as_of=given.get("as_of"))
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
@operation_options("recent")
@detail_option("summary")
@store_options
@json_option
def list_command(
    given: dict[str, Any], scope: dict[str, str | None], detail: Detail, db: str | None, as_json: bool
) -> None:
    """Show the newest memories."""
    limit: int = given.pop("limit")
    with open_store_for(db, scope) as bag:
        found = bag.recent(limit=min(limit + 1, MAX_LIMIT), **given)
        memories = found[:limit]
        if as_json:
            objects = [entry_json(memory, detail=detail) for memory in memories]
            print_text(join_json("memories", objects))
        elif memories and detail == "summary":
            print_memories(bag, memories)
        elif memories:
            print_listing(_entries(bag, memories, detail))
        else:
            note("no memories here")
        if len(found) > limit:
            note(f"the newest {limit:,}; there are more: --limit")


@click.command("similar")
@operation_options("similar")
@store_options
@json_option
def similar_command(given: dict[str, Any], scope: dict[str, str | None], db: str | None, as_json: bool) -> None:
    """Show the memories that are about the same thing as the memory ID."""
    with open_store_for(db, scope) as bag:
        hits = bag.similar(**given)
        if as_json:
            print_json({"similar": similar_ones(hits)})
        elif hits:
            print_listing(_entries(bag, [hit.memory for hit in hits], "summary"))
        else:
            note("nothing similar")


@click.command("timeline")
@operation_options("timeline")
@detail_option("standard")
@store_options
@json_option
def timeline_command(
    given: dict[str, Any], scope: dict[str, str | None], detail: Detail, db: str | None, as_json: bool
) -> None:
    """Show what came before and after the memory ID."""
    with open_store_for(db, scope) as bag:
        line = bag.timeline(**given)
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
@operation_options("history")
@store_options
@json_option
def history_command(given: dict[str, Any], scope: dict[str, str | None], db: str | None, as_json: bool) -> None:
    """Show every change of the memory ID, oldest first."""
    with open_store_for(db, scope) as bag:
        changes = bag.history(**given)
    if as_json:
        print_json({"history": changes})
    else:
        print_listing("".join(map(_change_lines, changes)))


@click.command("stats")
@operation_options("stats")
@store_options
@json_option
def stats_command(given: dict[str, Any], scope: dict[str, str | None], db: str | None, as_json: bool) -> None:
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


def print_memories(bag: Satchel, memories: Sequence[Memory]) -> None:
    """Print a table of memories: id, date, kind, project, first words.

    The project is left out where no memory has one, and the status where all are current.
    """
    names = bag.short_ids(memories)
    now = utc_now()
    columns: dict[str, list[str]] = {
        "id": names,
        "date": [memory.at.date().isoformat() for memory in memories],
        "kind": [memory.kind for memory in memories],
        "project": [memory.scope.project or "" for memory in memories],
        "status": [_status(memory, now) for memory in memories],
        "memory": [memory.headline(width=FIRST_WORDS) for memory in memories],
    }
    shown = {heading: column for heading, column in columns.items() if any(column)}
    cut = [place for place, heading in enumerate(shown) if heading in ("project", "memory")]
    print_table(list(zip(*shown.values(), strict=True)), headings=list(shown), cut=cut)


def _status(memory: Memory, now: datetime) -> str:
    """What makes a memory not current, or an empty text."""
    if memory.status != "active":
        return memory.status
    if memory.invalid_at is not None and memory.invalid_at <= now:
        return "ended"
    return "later" if not memory.current(now) else ""


def _entries(bag: Satchel, memories: Sequence[Memory], detail: Detail) -> str:
    names = bag.short_ids(memories)
    entries = [entry(memory, short_id=name, detail=detail) for memory, name in zip(memories, names, strict=True)]
    return "".join(entries) if detail == "summary" else join_entries(entries)


def _inner_json(key: str, memories: Sequence[Memory], detail: Detail) -> str:
    """One member of a JSON object, without the braces around it."""
    return join_json(key, [entry_json(memory, detail=detail) for memory in memories]).strip()[1:-1]


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
