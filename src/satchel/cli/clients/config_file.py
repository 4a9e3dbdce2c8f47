"""A client's file on the disk: read, backed up, shown as a diff, and replaced in one step or not at all."""

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

__all__ = ["Change", "carry_out", "content_of", "difference", "new_backup", "planned", "replaced", "shared"]


Mask = Callable[[str], str]

_AROUND = 2
# A file may be one line of megabytes. Of a long line only a part is shown, and what is masked in it is
# recognised in a wider one.
_LONG = 400
_SHOWN = 80
_MASKED = 2_000


def difference(before: str, after: str, *, path: str, mask: Mask) -> str:
    """One hunk from the first to the last line that differs; `mask` hides the secrets in what is shown."""
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
    names = ("/dev/null" if not old else path, path)
    heading = [f"--- {names[0]}", f"+++ {names[1]}", f"@@ -{spans[0]} +{spans[1]} @@"]
    return mask("\n".join([*heading, *shown]) + "\n")


def _lines(text: str) -> list[str]:
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def shared(left: Sequence[object], right: Sequence[object]) -> int:
    """How many items two sequences begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))


def _span(start: int, count: int) -> str:
    return f"{start + 1 if count else start},{count}"


def _shortened(line: str, mask: Mask) -> str:
    return line if len(line) <= _LONG else mask(line[:_MASKED])[:_SHOWN] + "…"


def _shortened_alike(gone: str, come: str, mask: Mask) -> tuple[list[str], list[str]]:
    """What differs in two long lines, with a little of what they share before and behind it."""
    head = shared(gone, come)
    tail = shared(gone[head:][::-1], come[head:][::-1])
    before = mask(gone[:head][-_MASKED:])[-_SHOWN:]
    behind = mask(gone[len(gone) - tail :][:_MASKED])[:_SHOWN]
    middles = (line[head : len(line) - tail] for line in (gone, come))
    first, second = (f"…{before}{mask(middle)}{behind}…" for middle in middles)
    return [first], [second]


# A client's file on the disk: read, backed up, and replaced in one step or not at all.


_BOM = b"\xef\xbb\xbf"
_ATTEMPTS = 5

Edit = Callable[[str], Edited]
Step = Callable[[], object]


def _nothing() -> None: ...


class Change(NamedTuple):
    """What an edit makes of a file: its bytes before, None if there was none, and after; and the backup."""

    path: Path
    before: bytes | None
    after: bytes
    what: What
    backup: Path | None = None

    @property
    def changes(self) -> bool:
        return self.what not in ("unchanged", "absent")


def planned(path: Path, edit: Edit) -> Change:
    """What an edit would make of a file; an InputError if it could not be made."""
    before = content_of(path)
    try:
        text = (before or b"").removeprefix(_BOM).decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8 and try again") from error
    try:
        edited = edit(text)
    except InputError as error:
        raise InputError(f"{path}: {error}; nothing was changed") from error
    bom = _BOM if before is not None and before.startswith(_BOM) else b""
    change = Change(path, before, bom + edited.text.encode(), edited.what)
    if change.changes:
        _check_writable(path)
    return change


def carry_out(path: Path, edit: Edit, *, now: datetime, first: Step = _nothing, then: Step = _nothing) -> Change:
    """Edit a file, with a copy of it left beside it. Begun anew if someone else writes to it meanwhile.

    `first` is done just before the file is replaced, `then` as soon as it is what it should be; other installs
    wait for both.
    """
    for _ in range(_ATTEMPTS):
        with _alone_in(_nearest_folder(path)):
            change = planned(path, edit)
            try:
                done = replaced(change, now, first) if change.changes else change
            except OSError as error:
                raise SatchelError(f"{path} cannot be written: {error.strerror}; nothing was changed") from error
            if done is not None:
                then()
                return done
    raise SatchelError(f"{path} is being written to all the time; close what does so and try again")


def content_of(path: Path) -> bytes | None:
    """The bytes of an ordinary file; None if there is none."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InputError(f"{path} is not an ordinary file; name another by --file")
            return file.read()
    except FileNotFoundError:
        return None
    except IsADirectoryError as error:
        raise InputError(f"{path} is a folder, not a file; name the file by --file") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


def _without_waiting(path: str, flags: int) -> int:
    # A pipe that nobody writes to would keep us waiting for ever.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _check_writable(path: Path) -> None:
    """That a file may be changed: replacing one asks only for its folder, not for the file's own leave."""
    target = Path(os.path.realpath(path))
    if target.exists() and not (target.stat().st_mode & stat.S_IWUSR and os.access(target, os.W_OK)):
        raise InputError(f"{path} is read-only; make it writable, or edit it by hand")
    folder = _nearest_folder(path)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{path} cannot be written: its folder {folder} is read-only")


def _nearest_folder(path: Path) -> Path:
    """The folder a file is in, or the one that has to be there before it can be made."""
    target = Path(os.path.realpath(path))
    # os.path.isdir, because Path.is_dir complains of a folder that may not be looked into.
    return next((folder for folder in target.parents if os.path.isdir(folder)), target)  # noqa: PTH112


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Other installs wait, so that none undoes what another did; clients know nothing of it.

    Where a folder cannot be locked, or someone keeps it locked, there is still the comparison.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            stack.enter_context(locked(folder))
        yield


def replaced(change: Change, now: datetime, first: Step = _nothing) -> Change | None:
    """The change with its backup, once it is made; None if the file is not any more what it was."""
    # Where a link leads, so that the link stays one.
    target = Path(os.path.realpath(change.path))
    target.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as undo:
        backup = None
        if change.before is not None:
            descriptor, backup = new_backup(target, now)
            undo.callback(backup.unlink, missing_ok=True)
            _fill(descriptor, backup, change.before, like=target)
        # Beside it, since a file moves in one step only within its file system.
        descriptor, name = tempfile.mkstemp(prefix=".satchel-", suffix=".partial", dir=target.parent)
        partial = Path(name)
        undo.callback(partial.unlink, missing_ok=True)
        _fill(descriptor, partial, change.after, like=target)
        if content_of(target) != change.before:
            return None
        first()
        partial.replace(target)
        undo.pop_all()
    return change._replace(backup=backup)


def new_backup(target: Path, now: datetime) -> tuple[int, Path]:
    """An open file of a name that was free."""
    name = f"{target.name}.satchel-backup-{now:%Y%m%d-%H%M%S}"
    names = chain([name], (f"{name}-{number}" for number in count(2)))
    while True:
        backup = target.with_name(next(names))
        try:
            return os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600), backup
        except FileExistsError:
            continue


def _fill(descriptor: int, path: Path, content: bytes, *, like: Path) -> None:
    """Write a new file to the disk, for the same people as another; if there is none, for its owner only."""
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    with contextlib.suppress(FileNotFoundError):
        model = like.stat()
        if hasattr(os, "chown"):
            # As root; anyone else keeps what is theirs.
            with contextlib.suppress(PermissionError):
                os.chown(path, model.st_uid, model.st_gid)
        path.chmod(stat.S_IMODE(model.st_mode))
