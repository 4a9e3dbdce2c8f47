"""Tools that write: mem_save, mem_update, mem_forget, mem_relate, mem_session."""

import itertools
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, cast

from satchel.api.satchel import Satchel
from satchel.api.saving import WIDTH, Outcome, Similar, outcome_of, said_again, similar_after_save
from satchel.errors import InputError
from satchel.fitting.listing import as_json
from satchel.model.ids import new_id
from satchel.model.memory import RELATIONS, Memory, RelationKind, utc_now
from satchel.server.mcp.answers import Answer
from satchel.server.mcp.tool import Tool, choice, line, names, text, tool_for
from satchel.server.mcp.tool_context import StartedSession, ToolContext

__all__ = ["FORGET", "RELATE", "SAVE", "SESSION", "UPDATE"]

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
    how = f"mem_relate(source={own}, target=ID, kind=supersedes)"
    for number, width in itertools.product(range(len(found), 0, -1), _WIDTHS):
        rows = [
            {"id": name, "at": each.at.date().isoformat(), "headline": _shortened(each.headline, width)}
            for name, each in zip(others[:number], found, strict=False)
        ]
        lines = "".join(f"\n{' '.join(row.values())}" for row in rows)
        text = f'\nSimilar; if this replaces one: {how}, or next time relate_to=["supersedes:ID"]{lines}'
        data = {"similar": rows, "to_replace": how}
        if max(bag.counter.count(text), bag.counter.count(as_json(data))) <= MOST_SIMILAR:
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


def _update(context: ToolContext, given: dict[str, Any]) -> Answer:
    memory = context.bag.update(**given)
    return _saved_answer(context.bag, memory, "updated")


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
    if not given["identifiers"]:
        raise InputError("mem_forget needs ids")
    purge = given.get("purge", False)
    count = context.bag.forget(**given).count
    done = "purged" if purge else "forgot"
    return Answer(f"{done} {count:,} {'memory' if count == 1 else 'memories'}", {"count": count, "purged": purge})


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
    own={"relate_to": names("ids, or kind:id such as fixes:ID")},
    effect="adds",
)
UPDATE = tool_for("update", "Change fields of a memory; its history is kept.", _update, effect="sets")
FORGET = tool_for(
    "forget",
    "End memories: no longer found, still in history. purge removes them for good.",
    _forget,
    required=("ids",),
    effect="ends",
)
RELATE = tool_for("relate", "Link two memories; supersedes also ends the target.", _relate, effect="sets")
SESSION = Tool(
    "mem_session",
    "Start a working session, or end it with a summary.",
    {
        "action": choice(("start", "end")),
        "summary": text("goal at the start, outcome at the end"),
        "session": line(),
        "project": line(),
    },
    ("action",),
    _session,
    "adds",
)
