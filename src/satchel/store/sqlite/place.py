"""Where a store's file is: made there, looked at before it is opened, replaced by a backup."""

import contextlib
import os
from pathlib import Path

import apsw

from satchel.errors import InputError, SatchelError, StoreError
from satchel.store.sqlite.connection import connect, create_file, reading_errors, trust
from satchel.store.sqlite.copy import copy_into, copy_to_new_file
from satchel.store.sqlite.header import refuse_strange_file
from satchel.store.sqlite.migrations import SCHEMA_VERSION, prepare, recognise, recognise_abandoned

__all__ = ["make_ready", "restore"]


def make_ready(path: Path, *, create: bool) -> bool:
    """Make the file where there is none, refuse what is no store; whether it can only be read."""
    if not path.exists() and not create:
        raise InputError(f"there is no store at {path}; `satchel add` makes one")
    _check_place(path)
    if not path.exists():
        create_file(path)
    _look_first(path)
    return not os.access(path, os.W_OK)


def restore(backup: Path, location: str, *, replace: bool = False) -> Path | None:
    """Put a backup in place of a store; what was there is first kept beside it, at the path returned."""
    if not backup.is_file():
        raise InputError(f"there is no backup at {backup}")
    target = Path(location).expanduser()
    if target.exists() and backup.samefile(target):
        raise InputError(f"{backup} is the store itself; give a backup of it")
    _check_place(target)
    _look_first(backup)
    with contextlib.closing(connect(str(backup), readonly=True)) as source:
        with reading_errors(str(backup)):
            if recognise(source, str(backup)) == 0:
                raise InputError(f"{backup} is empty; there is nothing to restore")
            if (found := source.pragma("integrity_check")) != "ok":
                raise StoreError(f"{backup} is damaged and was not used: {found}")
        kept = None
        if target.exists() and target.stat().st_size:
            if not replace:
                raise InputError(f"{target} exists; add --force to replace it (it is kept aside)")
            kept = _keep_aside(target)
        create_file(target)
        # Through SQLite, not by moving files: other processes may have the store open.
        with contextlib.closing(connect(str(target))) as destination:
            trust(destination)
            copy_into(source, destination)
            prepare(destination, str(target))
    return kept


def _keep_aside(target: Path) -> Path:
    number = 1
    while (aside := target.with_name(f"{target.name}.before-restore-{number}")).exists():
        number += 1
    try:
        _look_first(target)
        with contextlib.closing(connect(str(target))) as current:
            recognise(current, str(target))
            trust(current)
            copy_to_new_file(current, aside)
    except (SatchelError, apsw.Error) as error:
        raise StoreError(f"{target} cannot be kept aside ({error}); move it away yourself, then restore") from error
    return aside


def _look_first(path: Path) -> None:
    """Refuse what is not ours before SQLite touches it."""
    refuse_strange_file(path, newest=SCHEMA_VERSION)
    recognise_abandoned(path)


def _check_place(path: Path) -> None:
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a file")
    if not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist; make it first")
