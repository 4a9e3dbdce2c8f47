"""Tools that write: mem_save, mem_save_many, mem_update, mem_forget, mem_relate, mem_session."""

import itertools
from collections.abc import Sequence
from contextlib import nullcontext
from reprlib import repr as shortened
from typing import Any, cast, get_args

import msgspec

from satchel.api.satchel import Satchel
from satchel.api.saving import (
    WIDTH,
    Outcome,
    Similar,
    new_candidate,
    outcome_of,
    said_again,
    save_candidates,
    similar_after_save,
)
from satchel.errors import InputError
from satchel.model.checks import check_limit
from satchel.model.ids import new_id
from satchel.model.memory import RELATIONS, Draft, Forgotten, Memory, RelationKind, Scope, as_time, utc_now
from satchel.server.arguments import (
    Arguments,
    Parameter,
    choice,
    line,
    number,
    read_arguments,
    schema,
    tags,
    text,
    words,
)
from satchel.server.mcp.answers import Answer, most_as_json, remarked
from satchel.server.mcp.tool import Tool, tool_for
from satchel.server.mcp.tool_context import StartedSession, ToolContext
from satchel.store.contract import Candidate

__all__ = ["FORGET", "RELATE", "SAVE", "SAVE_MANY", "SESSION", "UPDATE"]

# How many tokens the similar memories may add to the answer of mem_save, as text and as data.
MOST_SIMILAR = 100
_WIDTHS = (WIDTH, 60, 40, 20)


def _save(context: ToolContext, given: dict[str, Any]) -> Answer:
    fields = {name: given[name] for name in given if name not in ("text", "project", "session", "relate_to")}
    session, bag = _place(context, given)
    links = [_link(each) for each in given.get("relate_to", ())]
    since = utc_now()
    # Alone it is one write already, whose vectors are made before the store is locked.
    with bag.transaction() if links else nullcontext():
        memory = bag.add(given["text"], session=session, **fields)
        history = bag.history(memory.id) if memory.revision > 1 else []
        outcome = outcome_of(memory, history, since=since)
        linked = [bag.relate(memory.id, target, kind).target for kind, target in links]
    answer = _saved_answer(bag, memory, outcome, merged=True)
    return _with_similar(answer, bag, memory, similar_after_save(bag, memory, but=linked))


def _with_similar(answer: Answer, bag: Satchel, memory: Memory, found: Sequence[Similar]) -> Answer:
    """Return the answer with the similar memories, cut to the tokens that are reserved for them."""
    own, *others = bag.short_ids([memory.id, *(each.id for each in found)])
    how = f"mem_relate(id={own}, target=ID, kind=supersedes)"
    for shown, width in itertools.product(range(len(found), 0, -1), _WIDTHS):
        rows = [
            {"id": name, "at": each.at.date().isoformat(), "headline": _shortened(each.headline, width)}
            for name, each in zip(others[:shown], found, strict=False)
        ]
        lines = "".join(f"\n{' '.join(row.values())}" for row in rows)
        text = f'\nSimilar; if this replaces one: {how}, or next time relate_to=["supersedes:ID"]{lines}'
        data = {"similar": rows, "to_replace": how}
        if max(bag.counter.count(text), most_as_json(data, bag.counter.count)) <= MOST_SIMILAR:
            return Answer(answer.text + text, answer.data | data)
    return answer


def _shortened(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"


def _place(context: ToolContext, given: dict[str, Any]) -> tuple[str | None, Satchel]:
    """Return the session of a call, by default the one that was started here, and the view of its project."""
    name, started = given.get("session") or None, context.session
    if started is not None and name in (None, started.name):
        return started.name, context.view({"project": started.project} | given)
    return name, context.view(given)


def _link(wanted: str) -> tuple[RelationKind, str]:
    """Parse one entry of `relate_to`: `ID`, or `fixes:ID`."""
    kind, colon, identifier = wanted.rpartition(":")
    if colon and kind not in RELATIONS:
        raise InputError(f"unknown relation {kind[:40]!r} in relate_to; known: {', '.join(RELATIONS)}")
    return cast(RelationKind, kind or "related"), identifier


# Several memories in one write.


MOST_MEMORIES = 1_000


def _save_many(context: ToolContext, given: dict[str, Any]) -> Answer:
    asked: list[Arguments] = given["memories"]
    session, bag = _place(context, given)
    since = utc_now()
    candidates = [
        _candidate(f"memories[{place}]", {"session": session} | each.values, bag.scope)
        for place, each in enumerate(asked)
    ]
    stored = save_candidates(bag, candidates)
    histories = (bag.history(each.id) if each.revision > 1 else [] for each in stored)
    outcomes = [outcome_of(each, told, since=since) for each, told in zip(stored, histories, strict=True)]
    answer = _many_answer(bag, stored, outcomes)
    told = [f"memories[{place}] {each.remark}" for place, each in enumerate(asked) if each.remark]
    return remarked(answer, "; ".join(told[:MOST_TOLD]), context.count) if told else answer


# How many items with ignored arguments the answer names.
MOST_TOLD = 3


def _candidate(name: str, fields: dict[str, Any], view: Scope) -> Candidate:
    try:
        return new_candidate(Draft(**fields), view)
    except InputError as error:
        raise InputError(f"{name}: {error}; nothing was saved") from error


def _many_answer(bag: Satchel, stored: Sequence[Memory], outcomes: Sequence[Outcome]) -> Answer:
    names = bag.short_ids(stored)
    said = []
    for outcome in get_args(Outcome):
        which = [name for name, each in zip(names, outcomes, strict=True) if each == outcome]
        if which:
            said.append(f"{outcome} {_count_of(len(which))}: {' '.join(which)}")
    data: dict[str, Any] = {
        "memories": [
            {"id": memory.id, "outcome": outcome} for memory, outcome in zip(stored, outcomes, strict=True)
        ]
    }
    if masked := sorted({label for memory in stored for label in memory.masked}):
        said.append(f"masked: {', '.join(masked)}")
        data["masked"] = masked
    if bag.embedder_trouble:
        data["trouble"] = bag.embedder_trouble
        said.append(f"found by their words until the embedder works: {bag.embedder_trouble}")
    return Answer("\n".join(said), data)


def _count_of(count: int) -> str:
    return f"{count:,} {'memory' if count == 1 else 'memories'}"


def _memories(name: str, value: object) -> list[Arguments]:
    """Read a list of memories: objects with the arguments of mem_save, or texts; also as a JSON string."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            raise InputError(f"{name} {shortened(value)} is not a list of memories") from None
    if not isinstance(value, list) or not value:
        raise InputError(f'{name} must be a list such as [{{"text": "…"}}], not {shortened(value)}')
    if len(value) > MOST_MEMORIES:
        raise InputError(f"{name} has {len(value):,} entries; the most is {MOST_MEMORIES:,}")
    return [_memory(f"{name}[{place}]", each) for place, each in enumerate(value)]


def _bare(parameter: Parameter) -> dict[str, Any]:
    """Return the schema of a field without what mem_save says of it already."""
    return {key: value for key, value in parameter.schema.items() if key in ("type", "items")}


def _memory(name: str, value: object) -> Arguments:
    fields = {"text": value} if isinstance(value, str) else value
    if not isinstance(fields, dict):
        raise InputError(f"{name} must be an object with text, not {shortened(value)}")
    known = {each: parameter for each, parameter in SAVE.parameters.items() if each != "relate_to"}
    try:
        return read_arguments(name, known, ("text",), fields)
    except InputError as error:
        said = str(error)
        raise InputError(f"{said if said.startswith(name) else f'{name}: {said}'}; nothing was saved") from error


def _update(context: ToolContext, given: dict[str, Any]) -> Answer:
    emptied = {_CLEARED[name][0]: _CLEARED[name][1] for name in given.pop("clear", ())}
    if twice := [name for name in emptied if name in given]:
        raise InputError(f"{twice[0]} is both set and in clear; give one of them")
    if not emptied and given.keys() == {"identifier"}:
        raise InputError(f"nothing to change was given; to empty a field, clear takes {', '.join(_CLEARED)}")
    memory = context.bag.update(**given, **emptied)
    return _saved_answer(context.bag, memory, "updated")


# What `clear` can empty, and what that means for `Satchel.update`.
_CLEARED: dict[str, tuple[str, Any]] = {
    "title": ("title", None),
    "tags": ("tags", None),
    "topic_key": ("topic_key", None),
    "pinned": ("pinned", False),
    "project": ("move_to", None),
}


def _saved_answer(bag: Satchel, memory: Memory, outcome: Outcome, *, merged: bool = False) -> Answer:
    """Return the answer to a save: its outcome, the revision, the cost, and what was masked."""
    data: dict[str, Any] = {"id": memory.id, "outcome": outcome} | {
        name: getattr(memory, name) for name in ("revision", "tokens")
    }
    done = "merged" if merged and outcome == "updated" else outcome
    said = [f"{done} {bag.short_ids([memory])[0]}"]
    if done == "confirmed":
        data["confirmations"] = memory.confirmations
        said.append(f"({said_again(memory)})")
    elif done == "merged":
        said.append(f"into what had this topic_key, now revision {memory.revision}")
    elif done == "updated":
        said.append(f"to revision {memory.revision}")
    if done != "confirmed":
        said.append(f"({memory.tokens:,} tokens)")
    if memory.masked:
        data["masked"] = list(memory.masked)
        said.append(f"masked: {', '.join(memory.masked)}")
    if bag.embedder_trouble:
        data["trouble"] = bag.embedder_trouble
        said.append(f"found by its words until the embedder works: {bag.embedder_trouble}")
    return Answer(" ".join(said), data)


def _forget(context: ToolContext, given: dict[str, Any]) -> Answer:
    """Forget by ids, or by filters if the caller confirms how many memories that ends; or undo an earlier call."""
    bag, chosen = context.view(given), context.options(given)
    undo, confirmed = chosen.pop("undo", None), chosen.pop("confirm", None)
    filters = [name for name in ("kind", "tags", "since", "until") if name in chosen]
    if undo is not None:
        if filters or "purge" in chosen:
            raise InputError(f"undo restores all that one call forgot; leave out {(*filters, 'purge')[0]}")
        count = bag.unforget(chosen.get("identifiers"), at=as_time(undo, name="undo"))
        return Answer(f"restored {_count_of(count)}", {"count": count, "restored": True})
    if "identifiers" in chosen:
        return _forgotten(bag.forget(**chosen))
    if not filters:
        raise InputError("mem_forget needs id, or a filter: kind, tags, since or until")
    if confirmed is None:
        return _counted(bag.forget(**chosen, dry_run=True).count, chosen)
    # Counted and forgotten in one write, so that nothing else is forgotten than what was counted.
    with bag.transaction():
        count = bag.forget(**chosen, dry_run=True).count
        return _forgotten(bag.forget(**chosen)) if count == confirmed else _counted(count, chosen)


def _counted(count: int, chosen: dict[str, Any]) -> Answer:
    """Return the answer to a call by filter that was not confirmed: how many match, and how to go on."""
    purge = chosen.get("purge", False)
    said = f"would {'purge' if purge else 'forget'} {_count_of(count)}; nothing was changed"
    if count:
        said += f". mem_list shows them; the same call with confirm={count} does it"
    return Answer(said, {"count": 0, "purged": False, "confirm": count})


def _forgotten(done: Forgotten) -> Answer:
    said = f"{'purged' if done.purged else 'forgot'} {_count_of(done.count)}"
    data: dict[str, Any] = {"count": done.count, "purged": done.purged}
    if done.at is not None:
        data["undo"] = done.at.isoformat().replace("+00:00", "Z")
        said += f"; undo: mem_forget(undo={data['undo']})"
    return Answer(said, data)


def _relate(context: ToolContext, given: dict[str, Any]) -> Answer:
    relation = context.bag.relate(**given)
    data = {"source": relation.source, "kind": relation.kind, "target": relation.target}
    source, target = context.bag.short_ids([relation.source, relation.target])
    return Answer(f"{source} {relation.kind} {target}", data)


def _session(context: ToolContext, given: dict[str, Any]) -> Answer:
    """Start or end a session. It is one memory: its goal at the start, its summary at the end."""
    return _start(context, given) if given["action"] == "start" else _end(context, given)


def _start(context: ToolContext, given: dict[str, Any]) -> Answer:
    name = given.get("session") or f"{utc_now():%Y-%m-%d}-{new_id()[-6:]}"
    bag = context.view(given)
    known = None if given.get("summary") else _known(bag, name)
    memory = known or _note(bag, name, given.get("summary") or "Started; not summed up yet.")
    done = "resumed" if known else "started"
    if context.remembers_session:
        context.session = StartedSession(name, given.get("project"))
        hint = "what is saved from now on belongs to it"
    else:
        hint = "give it as session to mem_save"
    return Answer(f"{done} session {name}; {hint}", {"session": name, "id": memory.id, "outcome": done})


def _end(context: ToolContext, given: dict[str, Any]) -> Answer:
    name, bag = _place(context, given)
    if name is None:
        raise InputError("no session was started here; name the one to end as session")
    if not given.get("summary", "").strip():
        raise InputError("mem_session needs summary to end a session: what was done, decided and left open")
    memory = _note(bag, name, given["summary"])
    if context.session is not None and context.session.name == name:
        context.session = None
    return Answer(f"ended session {name}", {"session": name, "id": memory.id, "outcome": "ended"})


def _known(bag: Satchel, name: str) -> Memory | None:
    """Return the memory of a session that exists already; a start must not overwrite it."""
    notes = bag.scoped(session=name).recent(kind="summary", limit=100)
    same = (each for each in notes if each.topic_key == _topic(name) and each.scope.project == bag.scope.project)
    return next(same, None)


def _note(bag: Satchel, name: str, content: str) -> Memory:
    return bag.add(
        content,
        title=f"Session {name}",
        kind="summary",
        tier="conversation",
        session=name,
        topic_key=_topic(name),
    )


def _topic(name: str) -> str:
    return f"session/{name}"


SAVE = tool_for(
    "add",
    "Remember one thing worth knowing later. The same topic_key replaces what it said before.",
    _save,
    own={"relate_to": tags("ids, or kind:id such as fixes:ID")},
    effect="adds",
)
_LISTED = ("text", "title", "kind", "tags")
_ITEM = schema(
    {name: SAVE.parameters[name]._replace(schema=_bare(SAVE.parameters[name])) for name in _LISTED}, ("text",)
)
SAVE_MANY = Tool(
    "mem_save_many",
    "Remember several things in one write, all or none.",
    {
        "memories": Parameter({"type": "array", "description": "as for mem_save", "items": _ITEM}, _memories),
        "project": SAVE.parameters["project"],
        "session": SAVE.parameters["session"],
    },
    ("memories",),
    _save_many,
    "adds",
)
UPDATE = tool_for(
    "update",
    "Change, empty or move a memory; its history is kept.",
    _update,
    own={"clear": words(tuple(_CLEARED), "fields to empty")},
    unlisted={"kind": "as in mem_save", "tier": "as in mem_save"},
    effect="sets",
)
FORGET = tool_for(
    "forget",
    "End memories, by id or filter: no longer found, still in history.",
    _forget,
    own={
        "confirm": number(check_limit, "count of the first call", whole=True, takes_zero=False),
        "undo": line("time from its answer"),
    },
    effect="ends",
)
RELATE = tool_for("relate", "Link two memories; supersedes also ends the target.", _relate, effect="sets")
SESSION = Tool(
    "mem_session",
    "Start a working session, or end it with a summary.",
    {
        "action": choice(("start", "end"), "what to do"),
        "summary": text("goal at the start, outcome at the end"),
        "session": SAVE.parameters["session"],
        "project": SAVE.parameters["project"],
    },
    ("action",),
    _session,
    "adds",
)
