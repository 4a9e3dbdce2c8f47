"""What the servers behind a gateway offered when it last ran, so that it can be told to a client at once.

It is kept in a file of the user's cache folder, one for each set of servers. Losing it costs only time.
"""

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from satchel import __version__
from satchel.server.gateway.servers import Server
from satchel.server.jsonrpc import Message

__all__ = ["Catalog", "Remembered"]


class Catalog(NamedTuple):
    """What a gateway offered: its instructions, its tools as clients see them, and the lists of each server."""

    instructions: str
    tools: list[Message]
    lists: dict[str, dict[str, list[Message]]]
    """By server and kind: tools, prompts, resources, resourceTemplates."""


class Remembered:
    """The file with the catalog of these servers."""

    def __init__(self, folder: Path, servers: Sequence[Server]) -> None:
        described = json.dumps([__version__, [_described(each) for each in servers]], sort_keys=True)
        self._path = folder / f"{sha256(described.encode('utf-8', 'replace')).hexdigest()[:32]}.json"
        self._written = b""

    def read(self) -> Catalog | None:
        """Return the catalog, or None if there is none that can be used."""
        try:
            written = self._path.read_bytes()
            found = json.loads(written)
            catalog = Catalog(found["instructions"], found["tools"], found["lists"])
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None
        if not _is_catalog(catalog):
            return None
        self._written = written
        return catalog

    def write(self, catalog: Catalog) -> None:
        """Keep the catalog, if it has changed. A folder that cannot be written is no trouble."""
        written = json.dumps(catalog._asdict(), separators=(",", ":")).encode()
        if written == self._written:
            return
        self._written = written
        partial = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial.write_bytes(written)
            partial.replace(self._path)


def _described(server: Server) -> list[Any]:
    """Return what says whether a server is still the same. Its secrets are only hashed."""
    return [type(server).__name__, *(dict(each) if isinstance(each, Mapping) else each for each in server)]


def _is_catalog(catalog: Catalog) -> bool:
    lists = catalog.lists.values() if isinstance(catalog.lists, dict) else [None]
    return (
        isinstance(catalog.instructions, str)
        and _are_objects(catalog.tools)
        and all(isinstance(kinds, dict) and all(map(_are_objects, kinds.values())) for kinds in lists)
    )


def _are_objects(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(each, dict) for each in found)
