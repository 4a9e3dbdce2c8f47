"""Completion of projects, tags, ids and other names that are in the store.

A shell starts the command anew at every Tab, so this reads little and prints nothing but what it offers. Errors are
swallowed in `satchel.cli.app`: a person who presses Tab has not asked for anything yet.
"""

import os
import shlex
from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem

from satchel.api.satchel import Satchel
from satchel.cli.hints import names_of
from satchel.cli.store_options import open_store_for
from satchel.fitting.listing import clean
from satchel.model.memory import STATUSES, Memory
from satchel.model.scope_fields import SCOPE_FIELDS

__all__ = ["complete_from_store"]

# The newest memories; others are reached by typing the beginning of a longer id.
OFFERED_IDS = 50
HEADLINE = 60
_NAMES = {"project": "project", "user": "user", "agent": "agent", "session": "session", "tags": "tag", "tag": "tag"}
_IDS = ("identifier", "identifiers", "source", "target")


def complete_from_store(command: click.Command) -> None:
    """Make the parameters of a command offer what is in the store. Only for a process that completes a line."""
    for param in command.params:
        if param.name in _NAMES:
            param.type = _StoredName(_NAMES[param.name])
        elif param.name in _IDS and isinstance(param, click.Argument) and param.human_readable_name != "FILE":
            param.type = _StoredId(ended=command.name == "unforget")


class _StoredName(click.ParamType[str]):
    """A name that some memory has."""

    name = "name"

    def __init__(self, field: str) -> None:
        self._field = field

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        with _opened(ctx, without=self._field) as bag:
            known = names_of(bag, self._field)
        return [CompletionItem(_typed(name)) for name in _beginning(known, incomplete)]


class _StoredId(click.ParamType[str]):
    """The short id of a memory, with its first words as help. Of `ended` ones only those that have ended."""

    name = "id"

    def __init__(self, *, ended: bool) -> None:
        self._ended = ended

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        with _opened(ctx) as bag:
            if self._ended:
                found = bag.recent(limit=OFFERED_IDS, ended=True, status=STATUSES, sort="updated")
                found = [memory for memory in found if memory.invalid_at is not None]
            else:
                found = bag.recent(limit=OFFERED_IDS, sort="created")
            names = dict(zip(bag.short_ids(found), found, strict=True))
        return [CompletionItem(name, help=_about(names[name])) for name in _beginning(names, incomplete)]


def _about(memory: Memory) -> str:
    return f"[{memory.kind}] {' '.join(clean(memory.headline(HEADLINE)).split())}"


def _opened(ctx: click.Context, without: str | None = None) -> Satchel:
    """Open the store that the line names so far, inside the scope that it names."""
    chain: list[click.Context] = []
    each: click.Context | None = ctx
    while each is not None:
        chain.append(each)
        each = each.parent
    ctx.find_root().obj = {"db": None, "embedder": None}
    db = next((place for each in chain if (place := each.params.get("db"))), None)
    scope = {field: ctx.params.get(field) for field in SCOPE_FIELDS if field != without}
    # A line that is not complete yet need not be correct.
    named: dict[str, str | None] = {
        field: name for field, name in scope.items() if isinstance(name, str) and name.strip()
    }
    with ctx.scope(cleanup=False):
        return open_store_for(db, named)


def _typed(name: str) -> str:
    """A name as it stands in a command line: bash inserts it as it is, other shells quote it themselves."""
    return shlex.quote(name) if os.environ["_SATCHEL_COMPLETE"].startswith("bash") else name


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    # Control characters would break the lines that the shell reads.
    return [name for name in names if name.casefold().startswith(incomplete.casefold()) and name.isprintable()]
