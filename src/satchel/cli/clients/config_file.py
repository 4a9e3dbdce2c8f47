"""A client's file on disk: read, backed up, shown as a diff, and replaced atomically."""

import contextlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import chain, count, takewhile
from pathlib import Path
from typing import NamedTuple

from satchel.cli.clients.entry import Edited, What
from satchel.errors import InputError, SatchelError
from satchel.store.file_lock import locked

__all__ = [
    "Change",
    "carry_out",
    "content_of",
    "difference",
    "missing_folders",
    "new_backup",
    "planned",
    "replaced",
    "shared",
    "text_of",
    "with_text",
]


Mask = Callable[[str], str]

_AROUND = 2
# A file may be one line of megabytes. Only a part of a long line is shown; secrets are masked in a wider part, so
# that those cut off at its edges are recognised.
_LONG = 400
_SHOWN = 80
_MASKED = 2_000


def difference(before: str, after: str, *, path: str, mask: Mask) -> str:
    """Return a diff with one hunk, from the first to the last changed line; `mask` hides secrets."""
    old, new = _lines(before), _lines(after)
    head = shared(old, new)
    tail = shared(old[head:][::-1], new[head:][::-1])
    gone, come = old[head : len(old) - tail], new[head : len(new) - tail]
    start = max(0, head - _AROUND)
    above, below = old[start:head], old[len(old) - tail :][:_AROUND]
    if len(gone) == len(come) == 1 and max(len(gone[0]), len(come[0])) > _LONG:
        gone, come = _shortened_alike(gone[0], come[0], mask)
    shown = [
        *(" " + _shortened(line, mask) for line in above),
        *("-" + _shortened(line, mask) for line in gone),
        *("+" + _shortened(line, mask) for line in come),
        *(" " + _shortened(line, mask) for line in below),
    ]
    around = len(above) + len(below)
    spans = (_span(start, around + len(gone)), _span(start, around + len(come)))
    names = (path if old else "/dev/null", path if new else "/dev/null")
    heading = [f"--- {names[0]}", f"+++ {names[1]}", f"@@ -{spans[0]} +{spans[1]} @@"]
    return mask("\n".join([*heading, *shown]) + "\n")


def _lines(text: str) -> list[str]:
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def shared(left: Sequence[object], right: Sequence[object]) -> int:
    """Return the length of the common prefix of two sequences."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))


def _span(start: int, count: int) -> str:
    return f"{start + 1 if count else start},{count}"


def _shortened(line: str, mask: Mask) -> str:
    return line if len(line) <= _LONG else mask(line[:_MASKED])[:_SHOWN] + "…"


def _shortened_alike(gone: str, come: str, mask: Mask) -> tuple[list[str], list[str]]:
    """Return what differs in two long lines, with a little common text on both sides."""
    head = shared(gone, come)
    tail = shared(gone[head:][::-1], come[head:][::-1])
    before = mask(gone[:head][-_MASKED:])[-_SHOWN:]
    behind = mask(gone[len(gone) - tail :][:_MASKED])[:_SHOWN]
    middles = (line[head : len(line) - tail] for line in (gone, come))
    first, second = (f"…{before}{mask(middle)}{behind}…" for middle in middles)
    return [first], [second]


# Editing a file: read, backed up, and replaced atomically


_BOM = b"\xef\xbb\xbf"
_ATTEMPTS = 5

Edit = Callable[[str], Edited]
Step = Callable[[], object]


class Change(NamedTuple):
    """The result of an edit: the bytes before and after (None for no file), and what was made for it."""

    path: Path
    before: bytes | None
    after: bytes | None
    what: What
    # Whether to keep a backup, and where it is.
    keeps_backup: bool = True
    backup: Path | None = None
    # Folders that were made for the file, the outermost first.
    folders: tuple[Path, ...] = ()

    @property
    def changes(self) -> bool:
        return self.what not in ("unchanged", "absent")


def _nothing() -> None: ...


def _as_it_is(change: Change) -> Change:
    return change


def text_of(content: bytes | None) -> str:
    """Return the text of a file, without a byte order mark; raises `UnicodeDecodeError`."""
    return (content or b"").removeprefix(_BOM).decode()


def with_text(content: bytes | None, text: str) -> bytes:
    """Return a text as the content of a file, with a byte order mark if the content before has one."""
    return (_BOM if (content or b"").startswith(_BOM) else b"") + text.encode()


def planned(path: Path, edit: Edit, *, adjust: Callable[[Change], Change] = _as_it_is) -> Change:
    """Return what an edit would make of a file; raises `InputError` if it is not possible.

    `adjust` may replace the result, such as by the file's exact content of an earlier time.
    """
    before = content_of(path)
    try:
        text = text_of(before)
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8 and try again") from error
    try:
        edited = edit(text)
    except InputError as error:
        raise InputError(f"{path}: {error}; nothing was changed") from error
    change = Change(path, before, with_text(before, edited.text), edited.what)
    if change.changes:
        _check_writable(path)
        return adjust(change)
    return change


def carry_out(
    path: Path,
    edit: Edit,
    *,
    now: datetime,
    adjust: Callable[[Change], Change] = _as_it_is,
    first: Step = _nothing,
    then: Callable[[Change], object] = _as_it_is,
) -> Change:
    """Edit a file and keep a backup beside it. Starts again if another program writes to the file meanwhile.

    `first` runs just before the file is replaced, `then` as soon as it has its final content; other installs wait
    for both.
    """
    for _ in range(_ATTEMPTS):
        with _alone_in(_nearest_folder(path)):
            change = planned(path, edit, adjust=adjust)
            try:
                done = replaced(change, now, first) if change.changes else change
            except OSError as error:
                raise SatchelError(f"{path} cannot be written: {error.strerror}; nothing was changed") from error
            if done is not None:
                then(done)
                return done
    raise SatchelError(f"{path} keeps changing; close the program that writes to it and try again")


def content_of(path: Path) -> bytes | None:
    """Return the bytes of a regular file, or None if there is none."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InputError(f"{path} is not a regular file; choose another with --file")
            return file.read()
    except FileNotFoundError:
        return None
    except IsADirectoryError as error:
        raise InputError(f"{path} is a folder, not a file; give the file with --file") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


def _without_waiting(path: str, flags: int) -> int:
    # Opening a pipe without a writer would block forever.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _check_writable(path: Path) -> None:
    """Check that a file may be changed: replacing it needs only its folder, not the file's own permission."""
    target = Path(os.path.realpath(path))
    if target.exists() and not (target.stat().st_mode & stat.S_IWUSR and os.access(target, os.W_OK)):
        raise InputError(f"{path} is read-only; make it writable, or edit it by hand")
    folder = _nearest_folder(path)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{path} cannot be written: its folder {folder} is read-only")


def _nearest_folder(path: Path) -> Path:
    """Return the folder of a file, or the nearest existing folder above it."""
    target = Path(os.path.realpath(path))
    # os.path.isdir, because Path.is_dir raises for a folder without permission.
    return next((folder for folder in target.parents if os.path.isdir(folder)), target)  # noqa: PTH112


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Make other installs wait, so that none undoes what another did. Clients do not know this lock.

    If the folder cannot be locked, the comparison before replacing still protects the file.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            stack.enter_context(locked(folder))
        yield


def replaced(change: Change, now: datetime, first: Step = _nothing) -> Change | None:
    """Back up and replace or remove the file, and return the change with what was made for it.

    Returns None if the file changed meanwhile.
    """
    # Resolve symbolic links, so that a link stays one.
    target = Path(os.path.realpath(change.path))
    folders = missing_folders(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as undo:
        backup = None
        if change.before is not None and change.keeps_backup:
            descriptor, backup = new_backup(target, now)
            undo.callback(backup.unlink, missing_ok=True)
            _fill(descriptor, backup, change.before, like=target)
        if change.after is None:
            if content_of(target) != change.before:
                return None
            first()
            target.unlink()
            undo.pop_all()
            return change._replace(backup=backup)
        # In the same folder, because renaming is atomic only within a file system.
        descriptor, name = tempfile.mkstemp(prefix=".satchel-", suffix=".partial", dir=target.parent)
        partial = Path(name)
        undo.callback(partial.unlink, missing_ok=True)
        _fill(descriptor, partial, change.after, like=target)
        if content_of(target) != change.before:
            return None
        first()
        partial.replace(target)
        undo.pop_all()
    return change._replace(backup=backup, folders=folders)


def missing_folders(path: Path) -> tuple[Path, ...]:
    """Return the folders above a path that do not exist, the outermost first."""
    return tuple(folder for folder in reversed(path.parents) if not folder.exists())


def new_backup(target: Path, now: datetime) -> tuple[int, Path]:
    """Open a new backup file with a free name."""
    name = f"{target.name}.satchel-backup-{now:%Y%m%d-%H%M%S}"
    names = chain([name], (f"{name}-{number}" for number in count(2)))
    while True:
        backup = target.with_name(next(names))
        try:
            return os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600), backup
        except FileExistsError:
            continue


def _fill(descriptor: int, path: Path, content: bytes, *, like: Path) -> None:
    """Write a new file to disk with the permissions of another; without one, readable by its owner only."""
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    with contextlib.suppress(FileNotFoundError):
        model = like.stat()
        if hasattr(os, "chown"):
            # Works as root only; other users keep their own ownership.
            with contextlib.suppress(PermissionError):
                os.chown(path, model.st_uid, model.st_gid)
        path.chmod(stat.S_IMODE(model.st_mode))
