"""Receipts of installs: what was made in and around a client's file, so that an uninstall removes exactly that."""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path

import msgspec

from satchel.cli.clients.client import Client
from satchel.cli.clients.config_file import Change, content_of, missing_folders, replaced, text_of, with_text
from satchel.errors import InputError

__all__ = ["Receipt", "Receipts"]


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What installs did to one file since it had no entry of Satchel."""

    file: str
    # Whether there was no file before, and whether the file had no object for servers.
    created: bool
    created_servers: bool
    # The backup with the bytes before, which can be restored as long as the file is as Satchel left it.
    original: str | None
    # SHA-256 of the file as Satchel left it; None if someone else changed it in between.
    digest: str | None
    # SHA-256 of each entry as it was written, by its name.
    servers: dict[str, str]
    backups: tuple[str, ...]
    folders: tuple[str, ...]


_DECODER = msgspec.json.Decoder(Receipt)


class Receipts:
    """The receipt of a client's file, in Satchel's own folder."""

    def __init__(self, folder: Path, client: Client, path: Path) -> None:
        self.client = client
        self.file = os.path.realpath(path)
        digest = hashlib.sha256(os.fsencode(self.file)).hexdigest()
        self.path = folder / f"installed-{digest[:12]}.json"

    def read(self) -> Receipt | None:
        """Return the receipt; None if there is none, or none that can be read."""
        with contextlib.suppress(msgspec.DecodeError, InputError, RecursionError):
            content = content_of(self.path)
            return _DECODER.decode(content) if content is not None else None
        return None

    def installed(
        self,
        change: Change,
        name: str,
        *,
        reversible: bool = True,
        more_backups: Iterable[Path] = (),
        more_folders: Iterable[Path] = (),
    ) -> None:
        """Record an install that was carried out. Raises `OSError`.

        `reversible` says that the bytes before are what an uninstall should bring back.
        """
        known = self.read()
        form, key = self.client.form, self.client.key
        earlier = [] if known is None else [name for name in known.servers if self._entry(change.before, name)]
        if known is None or not earlier:
            known = Receipt(
                file=self.file,
                created=change.before is None,
                created_servers=not form.has_servers(text_of(change.before), key=key),
                original=str(change.backup) if change.backup else None,
                digest=_digest(change.before),
                servers={},
                backups=known.backups if known else (),
                folders=known.folders if known else (),
            )
        backups = (str(path) for path in (change.backup, *more_backups) if path is not None)
        receipt = msgspec.structs.replace(
            known,
            digest=_digest(change.after) if reversible and known.digest == _digest(change.before) else None,
            servers={**known.servers, name: self._entry(change.after, name) or ""},
            backups=(*known.backups, *backups),
            folders=(*known.folders, *map(str, (*change.folders, *more_folders, *missing_folders(self.path)))),
        )
        self._write(receipt)

    def undone(self, change: Change, name: str) -> Change:
        """Return the change that removes an entry so that, if it was the last one, the file is as it was before."""
        receipt = self.read()
        if receipt is None or name not in receipt.servers:
            # A file with nothing but the entry is Satchel's, whoever installed it.
            return change._replace(after=None) if self.client.file_per_server else change
        # An entry that the user edited is worth a backup.
        change = change._replace(keeps_backup=self._entry(change.before, name) != receipt.servers[name])
        if len(receipt.servers) > 1:
            return change
        if receipt.digest is not None and receipt.digest == _digest(change.before):
            original = content_of(Path(receipt.original)) if receipt.original else None
            if original is not None or receipt.created:
                return change._replace(after=original)
        text = text_of(change.after)
        if receipt.created_servers:
            text = self.client.form.without_servers(text, key=self.client.key)
        if receipt.created and self.client.form.is_blank(text):
            return change._replace(after=None)
        return change._replace(after=with_text(change.after, text))

    def uninstalled(self, change: Change, name: str) -> list[Path]:
        """Remove what installs made, unless there is another entry; returns the removed backups and folders.

        This also finishes an uninstall that was interrupted. If the file is gone, its backups are kept.
        """
        receipt = self.read()
        if receipt is None or name not in receipt.servers:
            return []
        servers = {other: value for other, value in receipt.servers.items() if other != name}
        if servers:
            digest = _digest(change.after) if receipt.digest == _digest(change.before) else None
            with contextlib.suppress(OSError):
                self._write(msgspec.structs.replace(receipt, servers=servers, digest=digest))
            return []
        backups = receipt.backups if change.before is not None else ()
        removed = [path for path in map(Path, backups) if _gone(path.unlink)]
        _gone(self.path.unlink)
        _gone(self.path.parent.rmdir)
        return removed + [path for path in map(Path, reversed(receipt.folders)) if _gone(path.rmdir)]

    def _entry(self, content: bytes | None, name: str) -> str | None:
        """Return the digest of an entry; None if there is none."""
        value = self.client.form.entry_value(text_of(content), name, key=self.client.key)
        return None if value is None else _digest(json.dumps(value, sort_keys=True, default=str).encode())

    def _write(self, receipt: Receipt) -> None:
        content = msgspec.json.format(msgspec.json.encode(receipt), indent=2) + b"\n"
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        change = Change(self.path, content_of(self.path), content, "updated", keeps_backup=False)
        replaced(change, datetime.now())


def _digest(content: bytes | None) -> str | None:
    return hashlib.sha256(content).hexdigest() if content is not None else None


def _gone(remove: Callable[[], object]) -> bool:
    """Try to remove a file or an empty folder; returns whether it was removed."""
    try:
        remove()
    except OSError:
        return False
    return True
