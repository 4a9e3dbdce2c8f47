"""Commands that change memories: add, update, forget, relate."""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from satchel.api.satchel import NEVER_EMPTY, Satchel
from satchel.api.saving import (
    Outcome,
    Similar,
    new_candidate,
    outcome_of,
    said_again,
    save_candidate,
    similar_after_save,
)
from satchel.cli.options import (
    about_this_store,
    decode,
    embed_waiting,
    embedder_option,
    json_option,
    location,
    open_store_for,
    operation_options,
    read_file,
    read_stdin,
    store_options,
)
from satchel.cli.output import note, print_json, print_rows, print_text
from satchel.errors import InputError
from satchel.model.memory import CHANGEABLE, Draft, Memory, Scope, compact, utc_now
from satchel.store.contract import Held
from satchel.store.locations import index_left

__all__ = ["add_command", "forget_command", "relate_command", "show_saved", "update_command"]

# Some editors begin a file with it.
BYTE_ORDER_MARK = "\ufeff"
_INSIDE = ("agent", "session")
CLEARABLE = tuple(name for name in CHANGEABLE if name not in NEVER_EMPTY)


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

    Memories about the same thing are named on stderr, with the command that lets the new one replace one of them.
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
        memory = save_candidate(bag.scoped(**{field: scope[field] for field in _INSIDE}), candidate)
        history = bag.history(memory.id) if memory.revision > 1 else []
        outcome = outcome_of(memory, history, since=since)
        found = None if no_similar else similar_after_save(bag, memory)
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
    changes = given | dict.fromkeys(clear)
    if (text := given.get("text")) is not None:
        changes["text"] = _content(text, None)
    with open_store_for(db, scope, embedder=embedder) as bag:
        memory = bag.update(identifier, **changes)
        outcome: Outcome = "saved" if memory.revision == 1 else "updated"
        show_saved(bag, memory, outcome, as_json=as_json)
        embed_waiting(bag, db)


@click.command("forget")
@operation_options("forget")
@click.option("--yes", is_flag=True, help="Do not ask before all that matches is forgotten or purged.")
@store_options
@json_option
def forget_command(
    given: dict[str, Any], scope: dict[str, str | None], yes: bool, db: str | None, as_json: bool
) -> None:
    """End memories, or purge them. What is only ended is no longer found, but stays in the store.

    With --purge and nothing but --org the org is erased with all that it has, its sessions too.
    """
    identifiers, purge = given.get("identifiers"), "purge" in given
    narrowed = bool(given.keys() - {"purge"})
    if not narrowed and not any(scope.values()):
        raise InputError("say what to forget: ids, a scope, a kind, a tier or a tag")
    whole_org = purge and not narrowed and [name for name, value in scope.items() if value] == ["org"]
    what = (
        f"the org {scope['org']!r} with all its memories and sessions" if whole_org else "everything that matches"
    )
    if not identifiers and (purge or not narrowed) and not yes:
        # An empty shell variable where an id was meant must not empty a project.
        if sys.stdin is None or not sys.stdin.isatty():
            raise InputError(f"this is for {what}, not for one id; add --yes if it is meant")
        click.confirm(f"{'Remove' if purge else 'End'} {what}?", abort=True, err=True)
    if whole_org:
        with open_store_for(db, scope) as bag:
            erased = bag.erase()
            if not any(erased.values()):
                raise InputError(f"there is nothing of the org {bag.scope.org!r} here")
            _show_erased(erased, as_json=as_json)
            if index_left(location(db), bag.scope.org):
                note("an index that names this org is left: ask the owner to run `satchel db index`")
        return
    with open_store_for(db, scope) as bag:
        count = bag.forget(**given, everything=not narrowed).count
    if as_json:
        print_json({"purged" if purge else "forgotten": count})
        return
    what = "memory" if count == 1 else "memories"
    print_text(f"{'purged' if purge else 'forgot'} {count} {what}\n")


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
    else:
        print_text(f"{relation.source} {relation.kind} {relation.target}\n")


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


def _show_erased(counts: dict[Held, int], *, as_json: bool) -> None:
    if as_json:
        print_json({"erased": counts})
        return
    print_rows([(kind, f"{count:,}") for kind, count in counts.items()], right=1)


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
    """Print the id of a memory that was saved, and say on standard error what became of it."""
    if trouble := bag.embedder_trouble:
        note(f"not embedded yet, found by its words until then: {trouble}")
    if as_json:
        print_json(compact(memory) | ({} if similar is None else {"similar": similar}))
        return
    print_text(f"{memory.id}\n")
    done: str = outcome
    if outcome == "updated":
        done = f"updated to revision {memory.revision}"
    elif outcome == "confirmed":
        done = f"confirmed {memory.id} ({said_again(memory)})"
    masked = f"; masked: {', '.join(memory.masked)}" if memory.masked else ""
    note(f"{done}, {memory.tokens:,} {'token' if memory.tokens == 1 else 'tokens'}{masked}")
