"""Commands that end memories and restore them: forget, unforget."""

import shlex
import sys
from typing import Any

import click

from satchel.api.answers import Counted
from satchel.api.satchel import Satchel
from satchel.cli.hints import unknown_names
from satchel.cli.options import json_option, operation_options
from satchel.cli.output import is_terminal, note, print_json, print_rows, print_text
from satchel.cli.show import print_memories
from satchel.cli.store_options import about_this_store, location, open_store_for, store_options
from satchel.errors import InputError
from satchel.model.memory import STATUSES, Forgotten, Memory, utc_now
from satchel.store.contract import Held
from satchel.store.locations import index_left

__all__ = ["forget_command", "unforget_command"]

SHOWN = 5
_FLAGS = {"purge", "dry_run"}


@click.command("forget")
@operation_options("forget")
@click.option("--yes", is_flag=True, help="Do not ask before all that matches is forgotten or purged.")
@store_options
@json_option
@click.pass_context
def forget_command(
    ctx: click.Context,
    given: dict[str, Any],
    scope: dict[str, str | None],
    yes: bool,
    db: str | None,
    as_json: bool,
) -> None:
    """Forget memories: by ID, or all that match the filters. `satchel unforget` restores them.

    What is forgotten is no longer found, but stays in the store. --purge removes it for good. By filter, the
    command shows what matches and asks before it goes on. --purge with --org and nothing else erases the whole
    org, with its sessions.
    """
    narrowed = bool(given.keys() - _FLAGS)
    if not narrowed and not any(scope.values()):
        raise InputError("say what to forget: ids, or a filter such as --project, --kind or --tag")
    with open_store_for(db, scope) as bag:
        if "purge" in given and not narrowed and [name for name, value in scope.items() if value] == ["org"]:
            _erase(ctx, bag, db, yes=yes, dry_run="dry_run" in given, as_json=as_json)
            return
        if "identifiers" not in given:
            given["everything"] = not narrowed
            if "dry_run" not in given and not yes:
                _ask(ctx, bag, given, narrowed=narrowed)
        done = bag.forget(**given)
        if as_json:
            print_json(done)
        else:
            print_text(_said(done, given))
        if not done.count and "identifiers" not in given:
            for hint in unknown_names(db, scope, given.get("tags", ())):
                note(hint)
        elif done.at is not None and not as_json:
            note(about_this_store(f"undo: `{_undo(bag, done, given, scope['org'])}`", db))


def _said(done: Forgotten, given: dict[str, Any]) -> str:
    what = "memory" if done.count == 1 else "memories"
    purge = "purge" in given
    if "dry_run" in given:
        return f"would {'purge' if purge else 'forget'} {done.count:,} {what}\n"
    return f"{'purged' if purge else 'forgot'} {done.count:,} {what}\n"


def _undo(bag: Satchel, done: Forgotten, given: dict[str, Any], org: str | None) -> str:
    """The command that restores what was forgotten, and only that."""
    ids = given.get("identifiers", ())
    if len(ids) == 1:
        (name,) = bag.short_ids([bag.history(ids[0])[-1].memory])
        command = ["satchel", "unforget", name]
    else:
        assert done.at is not None
        command = ["satchel", "unforget", "--at", done.at.isoformat().replace("+00:00", "Z")]
    return shlex.join([*command, *(["--org", org] if org else [])])


def _ask(ctx: click.Context, bag: Satchel, given: dict[str, Any], *, narrowed: bool) -> None:
    """Show what matches and ask, where someone can answer. Elsewhere it takes --yes to purge or to empty a view."""
    purge = "purge" in given
    if not is_terminal(sys.stdin):
        # An empty shell variable where an id was meant must not empty a project.
        if purge or not narrowed:
            raise InputError("this is for everything that matches, not for one id; add --yes if it is meant")
        return
    count = bag.forget(**given, dry_run=True).count
    if not count:
        return
    found = _matching(bag, given, purge=purge)
    print_memories(bag, found[:SHOWN], stderr=True)
    if count > len(found[:SHOWN]):
        note(f"… and {count - len(found[:SHOWN]):,} more")
    what = "this memory" if count == 1 else f"these {count:,} memories"
    _confirm(ctx, f"Purge {what} for good?" if purge else f"Forget {what}?")


def _matching(bag: Satchel, given: dict[str, Any], *, purge: bool) -> list[Memory]:
    """The newest of the memories that a call of forget would end or remove."""
    chosen = {name: value for name, value in given.items() if name not in _FLAGS | {"everything"}}
    found = bag.recent(limit=10 * SHOWN, ended=True, **({"status": STATUSES} | chosen))
    now = utc_now()
    return [memory for memory in found if purge or memory.invalid_at is None or memory.invalid_at > now]


def _confirm(ctx: click.Context, question: str) -> None:
    if not click.confirm(question, err=True):
        note("nothing was changed")
        ctx.exit(1)


def _erase(ctx: click.Context, bag: Satchel, db: str | None, *, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Erase an org with all that it has."""
    org = bag.scope.org
    memories = bag.stats().memories
    if dry_run:
        print_text(f"would erase the org {org!r}: {memories:,} memories, and its sessions\n")
        return
    if not yes:
        if not is_terminal(sys.stdin):
            raise InputError(
                f"this erases the org {org!r} with all its memories and sessions; add --yes if it is meant"
            )
        _confirm(ctx, f"Erase the org {org!r} with its {memories:,} memories and all its sessions?")
    erased = bag.erase()
    if not any(erased.values()):
        raise InputError(f"there is nothing of the org {org!r} here")
    _show_erased(erased, as_json=as_json)
    if index_left(location(db), org):
        note("an index that names this org is left: ask the owner to run `satchel db index`")


def _show_erased(counts: dict[Held, int], *, as_json: bool) -> None:
    if as_json:
        print_json({"erased": counts})
        return
    print_rows([(kind, f"{count:,}") for kind, count in counts.items()], right=(1,))


@click.command("unforget")
@operation_options("unforget")
@store_options
@json_option
def unforget_command(given: dict[str, Any], scope: dict[str, str | None], db: str | None, as_json: bool) -> None:
    """Restore forgotten memories: by ID, or with --at all that one `forget` ended. What was purged is gone."""
    if not given:
        raise InputError("say what to restore: ids, or the time of a `satchel forget` as --at")
    with open_store_for(db, scope) as bag:
        count = bag.unforget(**given)
    if as_json:
        print_json(Counted(count=count))
        return
    print_text(f"restored {count:,} {'memory' if count == 1 else 'memories'}\n")
    if not count:
        note("nothing was forgotten there; `satchel list --ended` shows what has ended")
