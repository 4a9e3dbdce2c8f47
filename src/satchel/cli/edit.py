"""The command `edit`: one memory in a text editor."""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from satchel.api.satchel import Satchel
from satchel.cli.options import decode, embed_waiting, json_option, read_file
from satchel.cli.output import is_terminal, note
from satchel.cli.save import show_saved
from satchel.cli.store_options import embedder_option, open_store_for, scope_options, store_options
from satchel.errors import InputError, SatchelError
from satchel.model.memory import KINDS, Memory, checked

__all__ = ["edit_command"]

EDITORS = ("sensible-editor", "nano", "vim", "vi", "notepad")
SEPARATOR = "---"
HEADER = ("title", "kind", "tags", "importance", "pinned")
_TAGS = msgspec.json.Decoder(list[str])


@click.command("edit")
@click.argument("identifier", metavar="ID")
@scope_options
@embedder_option
@store_options
@json_option
def edit_command(
    identifier: str, scope: dict[str, str | None], embedder: str | None, db: str | None, as_json: bool
) -> None:
    """Change the memory ID in a text editor: $VISUAL, then $EDITOR.

    The file begins with title, kind, tags, importance and pinned. Below the line `---` is the text. A file saved
    without a change changes nothing. A file that cannot be stored is kept, and its path is printed.
    """
    with open_store_for(db, scope, embedder=embedder) as bag:
        memory = bag.get(identifier)
        (name,) = bag.short_ids([memory])
        editor = _editor()
        with _draft_file(as_document(memory), name) as file:
            changes = _edited(editor, file, memory)
            if not changes:
                note(f"{name} is unchanged")
                return
            changed = _stored(bag, memory, name, changes)
        show_saved(bag, changed, "updated", as_json=as_json)
        embed_waiting(bag, db)


def _stored(bag: Satchel, memory: Memory, name: str, changes: dict[str, Any]) -> Memory:
    with bag.transaction():
        now = bag.get(memory.id)
        if now.revision != memory.revision:
            raise InputError(f"{name} was changed by someone else while you edited it")
        return bag.update(memory.id, **changes)


# The file.


def as_document(memory: Memory) -> str:
    """Return a memory as text to edit: a header, a separator, the text and a line end."""
    comment = f"# Kinds: {', '.join(KINDS)}. The text is below the line {SEPARATOR}."
    header = [f"{field}: {value}".rstrip() for field, value in _header(memory).items()]
    return "\n".join([*header, comment, SEPARATOR, memory.text]) + "\n"


def changes_in(document: str, memory: Memory) -> dict[str, Any]:
    """Return the fields that an edited document changes, by name. What cannot be read is an InputError."""
    lines = document.removeprefix("\ufeff").splitlines(keepends=True)
    ends = [place for place, line in enumerate(lines) if line.strip() == SEPARATOR]
    if not ends:
        raise InputError(f"the line {SEPARATOR} between the header and the text is missing")
    before = _header(memory)
    changes: dict[str, Any] = {}
    for number, line in enumerate(lines[: ends[0]], start=1):
        if not line.strip() or line.startswith("#"):
            continue
        field, colon, value = (part.strip() for part in line.partition(":"))
        if not colon or field not in HEADER:
            raise InputError(f"line {number} is none of {', '.join(f'`{name}:`' for name in HEADER)}")
        if value != before[field]:
            changes[field] = _field(field, value)
            if changes[field] is not None:
                checked(field, changes[field])
    text = "".join(lines[ends[0] + 1 :])
    # Editors end the last line; one line end is not part of the text.
    text = text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
    return changes | ({"text": checked("text", text)} if text != memory.text else {})


def _header(memory: Memory) -> dict[str, str]:
    # A tag with a comma cannot stand in a list with commas.
    plain = not any("," in tag or tag.startswith("[") for tag in memory.tags)
    return {
        "title": " ".join((memory.title or "").split()),
        "kind": memory.kind,
        "tags": ", ".join(memory.tags) if plain else msgspec.json.encode(memory.tags).decode(),
        "importance": f"{memory.importance:g}",
        "pinned": "yes" if memory.pinned else "no",
    }


def _field(field: str, value: str) -> object:
    if field == "title":
        return value or None
    if field == "tags":
        if value.startswith("["):
            with contextlib.suppress(msgspec.DecodeError):
                return _TAGS.decode(value)
        return [tag.strip() for tag in value.split(",") if tag.strip()]
    if field == "importance":
        try:
            return float(value)
        except ValueError:
            raise InputError(f"importance {value!r} is not a number from 0 to 1") from None
    if field == "pinned":
        if value.lower() not in ("yes", "no", "true", "false"):
            raise InputError(f"pinned {value!r} is neither yes nor no")
        return value.lower() in ("yes", "true")
    return value


# The editor.


@contextlib.contextmanager
def _draft_file(document: str, name: str) -> Iterator[Path]:
    """A file with the document. It is removed at the end, but kept if an error would lose what was typed."""
    handle, path = tempfile.mkstemp(prefix=f"satchel-{name}-", suffix=".md")
    file = Path(path)
    with os.fdopen(handle, "wb") as opened:
        opened.write(document.encode())
    try:
        yield file
    except BaseException as error:
        if not file.exists() or file.read_bytes() == document.encode():
            file.unlink(missing_ok=True)
            raise
        kept = f"nothing was changed; your draft is in {file}"
        if isinstance(error, SatchelError):
            raise type(error)(f"{error}; {kept}") from error
        note(kept)
        raise
    file.unlink(missing_ok=True)


def _edited(editor: list[str], file: Path, memory: Memory) -> dict[str, Any]:
    """Run the editor until its file can be read, or the user gives up; the changes it makes."""
    while True:
        _run(editor, file)
        try:
            return changes_in(decode(read_file(file), str(file)), memory)
        except InputError as error:
            if not is_terminal(sys.stdin):
                raise
            note(str(error))
            if not click.confirm("Edit again?", default=True, err=True):
                raise


def _editor() -> list[str]:
    for variable in ("VISUAL", "EDITOR"):
        if (named := os.environ.get(variable, "").strip()) and (words := _words(named, variable)):
            return words
    found = next((name for name in EDITORS if shutil.which(name)), None)
    if found is None:
        raise InputError("there is no editor; set EDITOR to the command that starts one")
    return [found]


def _words(command: str, variable: str) -> list[str]:
    try:
        return shlex.split(command, posix=os.name == "posix")
    except ValueError as error:
        raise InputError(f"{variable} {command!r} cannot be read as a command: {error}") from None


def _run(editor: list[str], file: Path) -> None:
    # Ctrl-C in the editor is for the editor. A handler of Python's is not inherited, unlike an ignored signal.
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        code = subprocess.call([*editor, str(file)])
    except OSError as error:
        raise InputError(f"cannot start the editor {editor[0]!r}: {error.strerror}; set EDITOR") from error
    finally:
        signal.signal(signal.SIGINT, before)
    if code != 0:
        raise InputError(f"the editor {editor[0]!r} failed with code {code}")
