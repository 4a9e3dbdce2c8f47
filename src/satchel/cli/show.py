"""Commands that show memories: get, list, projects, tags, similar, timeline, history, stats."""

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import click
import msgspec

from satchel.api.answers import Changes, Memories, Names, SimilarMemories, get_with_relations
from satchel.api.satchel import Satchel
from satchel.api.saving import similar_ones
from satchel.cli.help import TYPED
from satchel.cli.hints import unknown_names
from satchel.cli.options import detail_option, json_option, operation_options
from satchel.cli.output import note, print_json, print_listing, print_rows, print_table, print_text
from satchel.cli.store_options import open_store_for, store_options
from satchel.fitting.listing import Detail, clean, entry, join_entries
from satchel.model.checks import MAX_LIMIT
from satchel.model.ids import whole_short_id
from satchel.model.memory import Change, Memory, compact, utc_now

__all__ = [
    "get_command",
    "history_command",
    "list_command",
    "print_memories",
    "projects_command",
    "similar_command",
    "stats_command",
    "tags_command",
    "timeline_command",
]

# Characters of a text without a title, in a table.
FIRST_WORDS = 100
_DETAILS = (
    "org", "user", "agent", "session", "tier", "pinned", "importance", "confidence", "speaker", "source", "ref",
    "topic_key", "metadata", "masked",
)  # fmt: skip


@click.command("get")
@operation_options("get")
@store_options
@json_option
def get_command(given: dict[str, Any], scope: dict[str, str | None], db: str | None, as_json: bool) -> None:
    """Show one memory whole, with its relations."""
    with open_store_for(db, scope) as bag:
        memory = get_with_relations(bag, **given)
        if as_json:
            print_json(memory)
            return
        relations = memory.relations
        others = [each.target if each.source == memory.id else each.source for each in relations]
        own, *names = bag.short_ids([memory.id, *others])
        print_listing(entry(memory, short_id=own, detail="full"))
        # Not indented: no line of a stored text can look like these.
        print_text("".join(_details(memory)))
        for relation, name in zip(relations, names, strict=True):
            arrow = "→" if relation.source == memory.id else "←"
            print_text(f"{arrow} {relation.kind} {name} ({relation.strength:g})\n")


def _details(memory: Memory) -> Iterator[str]:
    """The fields that the heading of an entry does not show, where they differ from their defaults."""
    plain = compact(memory)
    for name, value in (plain.pop("scope", {}) | plain).items():
        if name in _DETAILS:
            told = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            yield f"{name}: {' '.join(clean(told).split())}\n"


@click.command("list")
@operation_options("recent")
@detail_option("summary")
@store_options
@json_option
@click.pass_context
def list_command(
    ctx: click.Context,
    given: dict[str, Any],
    scope: dict[str, str | None],
    detail: Detail,
    db: str | None,
    as_json: bool,
) -> None:
    """List memories, the newest first. With --json they are whole, whatever --detail says."""
    limit: int = given.pop("limit")
    with open_store_for(db, scope) as bag:
        found = bag.recent(limit=min(limit + 1, MAX_LIMIT), **given)
        memories = found[:limit]
        if as_json:
            print_json(Memories(memories=tuple(memories)))
        elif detail == "summary":
            print_memories(bag, memories)
        else:
            print_listing(_entries(bag, memories, detail))
    if not memories:
        offset = given.get("offset", 0)
        hints = [f"no memories after the first {offset:,}"] if offset else _no_names(db, scope, given)
        for line in hints or ["no memories here"]:
            note(line)
    elif len(found) > limit:
        note(f"there are more: {_next_page(ctx, given.get('offset', 0) + limit)}")


def _no_names(db: str | None, scope: dict[str, str | None], given: dict[str, Any]) -> list[str]:
    return unknown_names(db, scope, given.get("tags", ()))


def _next_page(ctx: click.Context, offset: int) -> str:
    """The same command from an offset on, or only the option where a password may be among what was typed."""
    typed = [*ctx.find_root().meta.get(TYPED, ())]
    if not typed or any("://" in each for each in typed):
        return f"--offset {offset}"
    kept: list[str] = []
    for each in typed:
        if kept and kept[-1] == "--offset":
            kept.pop()
        elif not each.startswith("--offset="):
            kept.append(each)
    return f"`{shlex.join(['satchel', *kept, '--offset', str(offset)])}`"


@click.command("projects")
@operation_options("projects")
@store_options
@json_option
def projects_command(given: dict[str, Any], scope: dict[str, str | None], db: str | None, as_json: bool) -> None:
    """List the projects, and how many current memories each has."""
    with open_store_for(db, scope) as bag:
        _show_names("project", bag.projects(**given), as_json=as_json)


@click.command("tags")
@operation_options("tags")
@store_options
@json_option
def tags_command(given: dict[str, Any], scope: dict[str, str | None], db: str | None, as_json: bool) -> None:
    """List the tags, and how many current memories have each."""
    with open_store_for(db, scope) as bag:
        names = bag.tags(**given)
    _show_names("tag", names, as_json=as_json)
    if not names:
        for hint in unknown_names(db, scope):
            note(hint)


def _show_names(heading: str, names: dict[str, int], *, as_json: bool) -> None:
    if as_json:
        print_json(Names(names=names))
        return
    rows = [(name, f"{count:,}") for name, count in names.items()]
    print_table(rows, headings=(heading, "memories"), right=(1,), cut=(0,))
    if not rows:
        note(f"no {heading}s here")


@click.command("similar")
@operation_options("similar")
@store_options
@json_option
def similar_command(given: dict[str, Any], scope: dict[str, str | None], db: str | None, as_json: bool) -> None:
    """List the memories that are about the same thing as the memory ID, the most similar first."""
    with open_store_for(db, scope) as bag:
        hits = bag.similar(**given)
        if as_json:
            print_json(SimilarMemories(similar=similar_ones(hits)))
        elif hits:
            print_memories(bag, [hit.memory for hit in hits])
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
    """Show what came before and after the memory ID. With --json memories are whole, whatever --detail says."""
    with open_store_for(db, scope) as bag:
        line = bag.timeline(**given)
        if as_json:
            print_json(line)
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
            print_json(Changes(changes=tuple(changes)))
            return
        related = [end for change in changes for end in _ends(change)]
        names = dict(zip(related, bag.short_ids(related), strict=True))
        print_listing("".join(_change_lines(change, names) for change in changes))


@click.command("stats")
@operation_options("stats")
@store_options
@json_option
def stats_command(given: dict[str, Any], scope: dict[str, str | None], db: str | None, as_json: bool) -> None:
    """Count the memories by kind, tier, status and project."""
    with open_store_for(db, scope) as bag:
        stats = bag.stats(**given)
    if as_json:
        print_json(stats)
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
    print_rows(rows, right=(1,))
    if stats.embedder:
        print_rows([("embedder", stats.embedder)])
    if not stats.memories:
        for hint in unknown_names(db, scope):
            note(hint)


def print_memories(bag: Satchel, memories: Sequence[Memory], *, stderr: bool = False) -> None:
    """Print a table of memories: id, date, kind, project, first words.

    The project is left out where no memory has one, and the status where all are current.
    """
    if not memories:
        return
    names = _of_one_length(memories, bag.short_ids(memories))
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
    print_table(list(zip(*shown.values(), strict=True)), headings=list(shown), cut=cut, stderr=stderr)


def _of_one_length(memories: Sequence[Memory], names: Sequence[str]) -> list[str]:
    """The short ids, each as long as the longest; a full id stays as it is."""
    whole = [whole_short_id(memory.id) for memory in memories]
    width = max(len(name) for name in names)
    return [long[:width] if len(name) <= len(long) else name for name, long in zip(names, whole, strict=True)]


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


def _ends(change: Change) -> list[str]:
    """The ids of the memories of the relations in a change."""
    relations = [each for each in change.changes.get("relation") or () if each]
    return [each[end] for each in relations for end in ("source", "target")]


def _change_lines(change: Change, names: dict[str, str]) -> str:
    lines = [f"{change.at.replace(tzinfo=None).isoformat(' ', 'seconds')} {change.action}"]
    for name, (old, new) in change.changes.items():
        if name == "relation":
            relation = new or old
            lines.append(f"    {names[relation['source']]} {relation['kind']} {names[relation['target']]}")
        else:
            lines.append(f"    {name}: {_short(old)} → {_short(new)}")
    return "".join(clean(line).replace("\n", " ") + "\n" for line in lines)


def _short(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    line = " ".join(text.split())
    return line if len(line) <= 100 else line[:99] + "…"
