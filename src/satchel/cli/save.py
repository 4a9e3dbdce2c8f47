"""Commands that save and change memories: add, update, relate, unrelate."""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from satchel.api.answers import Counted, saved
from satchel.api.satchel import NEVER_EMPTY, Satchel
from satchel.api.saving import (
    Outcome,
    Similar,
    new_candidate,
    outcome_of,
    said_again,
    save_candidates,
    similar_after_save,
)
from satchel.cli.options import decode, embed_waiting, json_option, operation_options, read_file, read_stdin
from satchel.cli.output import note, print_json, print_text
from satchel.cli.store_options import about_this_store, embedder_option, open_store_for, store_options
from satchel.errors import InputError
from satchel.model.memory import CHANGEABLE, Draft, Memory, Scope, utc_now

__all__ = ["add_command", "relate_command", "show_saved", "unrelate_command", "update_command"]

# Some editors begin a file with it.
BYTE_ORDER_MARK = "\ufeff"
_INSIDE = ("agent", "session")
CLEARABLE = (*(name for name in CHANGEABLE if name not in NEVER_EMPTY), "project")


@click.command("add")
@operation_options("add")
@click.option("--file", "file", type=click.Path(path_type=Path), help="Read the text from a file.")
@click.option("--no-similar", is_flag=True, help="Do not look for memories about the same thing.")
@embedder_option
@store_options
@json_option
def add_command(
    given: dict[str, Any],
    scope: dict[str, str | None],
    file: Path | None,
    no_similar: bool,
    embedder: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Remember a text. Without TEXT, or with `-`, it is read from standard input.

    Memories about the same thing are listed on standard error, with the command that marks one as superseded.
    """
    text: str | None = given.pop("text", None)
    piped = text is None and file is None and sys.stdin is not None and not sys.stdin.isatty()
    draft = Draft(_content("-" if piped else text, file), **given)
    since = utc_now()
    # A text that is refused makes no store.
    candidate = new_candidate(draft, Scope(**{field: name for field, name in scope.items() if name}), now=since)
    # What is added to a session is compared with what other sessions have saved.
    around = {field: name for field, name in scope.items() if field not in _INSIDE}
    with open_store_for(db, around, create=True, embedder=embedder) as bag:
        (memory,) = save_candidates(bag.scoped(**{field: scope[field] for field in _INSIDE}), [candidate])
        history = bag.history(memory.id) if memory.revision > 1 else []
        outcome = outcome_of(memory, history, since=since)
        found = [] if no_similar else similar_after_save(bag, memory)
        show_saved(bag, memory, outcome, as_json=as_json, similar=found)
        if found and not as_json:
            _show_similar(bag, memory, found, db, scope["org"])
        embed_waiting(bag, db)


@click.command("update")
@operation_options("update")
@click.option("--clear", type=click.Choice(CLEARABLE), multiple=True, help="Empty this field. Repeatable.")
@embedder_option
@store_options
@json_option
def update_command(
    given: dict[str, Any],
    scope: dict[str, str | None],
    clear: tuple[str, ...],
    embedder: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Change fields of the memory ID. `--text -` reads the new text from standard input."""
    identifier = given.pop("identifier")
    changes = given | {"move_to" if name == "project" else name: None for name in clear}
    if (text := given.get("text")) is not None:
        changes["text"] = _content(text, None)
    with open_store_for(db, scope, embedder=embedder) as bag:
        memory = bag.update(identifier, **changes)
        outcome: Outcome = "saved" if memory.revision == 1 else "updated"
        show_saved(bag, memory, outcome, as_json=as_json)
        embed_waiting(bag, db)


@click.command("relate")
@operation_options("relate")
@store_options
@json_option
def relate_command(given: dict[str, Any], scope: dict[str, str | None], db: str | None, as_json: bool) -> None:
    """Link the memory ID to OTHER_ID: "ID fixes OTHER_ID"."""
    with open_store_for(db, scope) as bag:
        relation = bag.relate(**given)
        if as_json:
            print_json(relation)
            return
        source, target = bag.short_ids([relation.source, relation.target])
        print_text(f"{source} {relation.kind} {target}\n")


@click.command("unrelate")
@operation_options("unrelate")
@store_options
@json_option
def unrelate_command(given: dict[str, Any], scope: dict[str, str | None], db: str | None, as_json: bool) -> None:
    """Remove the relations from the memory ID to OTHER_ID. What "ID supersedes OTHER_ID" ended is restored."""
    with open_store_for(db, scope) as bag:
        count = bag.unrelate(**given)
    if as_json:
        print_json(Counted(count=count))
        return
    print_text(f"removed {count:,} {'relation' if count == 1 else 'relations'}\n")
    if not count:
        note(f"`satchel get {given['source']}` shows the relations of a memory")


def _content(text: str | None, file: Path | None) -> str:
    if (text is None) == (file is None):
        raise InputError("give a text, `-` for standard input, or --file, and only one of them")
    if file is not None:
        return _without_marks(decode(read_file(file), str(file)))
    assert text is not None
    if text == "-":
        return _without_marks(read_stdin())
    # What the shell handed over that is not UTF-8 arrives as lone surrogates.
    return decode(os.fsencode(text), "the text")


def _without_marks(text: str) -> str:
    """Without a byte order mark and without the line end of the last line, which are marks of a file."""
    text = text.removeprefix(BYTE_ORDER_MARK)
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text


def _show_similar(bag: Satchel, memory: Memory, found: Sequence[Similar], db: str | None, org: str | None) -> None:
    own, *others = bag.short_ids([memory.id, *(each.id for each in found)])
    for name, each in zip(others, found, strict=True):
        note(f"similar: {name} ({each.at.date()}) {each.headline}")
    within = f" --org {shlex.quote(org)}" if org else ""
    advice = f"if it replaces one: `satchel relate {own} ID --kind supersedes{within}`"
    note(about_this_store(advice, db))


def show_saved(
    bag: Satchel,
    memory: Memory,
    outcome: Outcome,
    *,
    as_json: bool,
    similar: Sequence[Similar] | None = None,
) -> None:
    """Print the short id of a memory that was saved, and say on standard error what became of it.

    As JSON it is the whole memory, and of one that was added also the outcome and the `similar` ones.
    """
    if trouble := bag.embedder_trouble:
        note(f"not embedded yet, found by its words until then: {trouble}")
    if as_json:
        print_json(memory if similar is None else saved(memory, outcome, similar))
        return
    (name,) = bag.short_ids([memory])
    print_text(f"{name}\n")
    done: str = outcome
    if outcome == "updated":
        done = f"updated to revision {memory.revision}"
    elif outcome == "confirmed":
        done = f"confirmed {name} ({said_again(memory)})"
    masked = f"; masked: {', '.join(memory.masked)}" if memory.masked else ""
    note(f"{done}, {memory.tokens:,} {'token' if memory.tokens == 1 else 'tokens'}{masked}")
