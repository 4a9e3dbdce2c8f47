"""Our own file of a client's servers behind a gateway: what the gateway runs, and all that the way back needs."""

import contextlib
import hashlib
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from satchel.cli.clients.client import Client
from satchel.cli.clients.configuration import Change, content_of, new_backup, replaced
from satchel.cli.clients.listing import Stretch
from satchel.cli.clients.places import Surroundings
from satchel.errors import InputError, SatchelError

__all__ = ["Holding", "Origin", "holding_path", "newest_aside", "read_holding", "set_aside", "write_holding"]


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where servers were taken from: the file, the text of each, and the stretch they stood in."""

    file: str
    sources: dict[str, str]
    before: str
    after: str
    # Those of the client's environment that Codex has to hand on to the gateway.
    variables: tuple[str, ...] = ()

    @property
    def stretch(self) -> Stretch:
        return Stretch(self.before, self.after)


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """A gateway's configuration, which looks at the servers alone."""

    servers: dict[str, dict[str, Any]] = msgspec.field(name="mcpServers")
    origin: Origin = msgspec.field(name="satchel")


_DECODER = msgspec.json.Decoder(Holding)


def holding_path(folder: Path, name: str, client: Client, path: Path, around: Surroundings) -> Path:
    """The place of ours: named after the client and, if its file is not the usual one, after that."""
    usual = None
    with contextlib.suppress(InputError):
        # Without the environment, which may name another place tomorrow.
        usual = os.path.realpath(client.own_file(around._replace(environment={})))
    target = os.path.realpath(path)
    if target == usual:
        return folder / f"gateway-{name}.json"
    return folder / f"gateway-{name}-{hashlib.sha256(os.fsencode(target)).hexdigest()[:12]}.json"


def read_holding(path: Path) -> Holding | None:
    """What is held there; None if there is no such file."""
    content = content_of(path)
    if content is None:
        return None
    try:
        return _DECODER.decode(content)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{path} cannot be understood: {error}; restore it from a copy beside it") from error


def write_holding(path: Path, holding: Holding, *, now: datetime) -> None:
    """Write it to the disk, for its owner only; what was there before is kept beside it."""
    content = msgspec.json.format(msgspec.json.encode(holding), indent=2) + b"\n"
    before = content_of(path)
    if before == content:
        return
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        done = replaced(Change(path, before, content, "updated"), now)
        _settle(path.parent)
    except OSError as error:
        raise SatchelError(f"{path} cannot be written: {error.strerror}; nothing was changed") from error
    if done is None:
        raise SatchelError(f"{path} was changed by someone else just now; try again")


def set_aside(path: Path, *, now: datetime) -> Path | None:
    """Give it another name, so that nothing is lost whatever a client writes next; None if it is not there."""
    if not path.exists():
        return None
    try:
        descriptor, aside = new_backup(path, now)
        os.close(descriptor)
        path.replace(aside)
    except OSError as error:
        raise SatchelError(f"{path} is not needed any more and cannot be renamed: {error.strerror}") from error
    return aside


def newest_aside(path: Path) -> Path | None:
    """The last one that was set aside or replaced."""
    found = [(each, each.stat()) for each in path.parent.glob(f"{path.name}.satchel-backup-*")]
    # One that is empty was about to be filled when something went wrong.
    return max((each for each in found if each[1].st_size), key=lambda each: each[1].st_mtime_ns, default=(None,))[
        0
    ]


def _settle(folder: Path) -> None:
    """Have the folder on the disk too, so that no power cut leaves the client's change without ours."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
