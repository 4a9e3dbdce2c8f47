"""The names under which a client sees what several servers offer."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

__all__ = ["LONGEST_NAME", "Named", "exposed"]

LONGEST_NAME = 64

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")
# Some providers take no dot; a tool's own is not ours to change.
_NOT_IN_PREFIXES = re.compile(r"[^A-Za-z0-9_-]")


class Named(NamedTuple):
    """What a server calls something, and how a client does."""

    server: str
    name: str
    shown: str


def exposed(offers: Sequence[tuple[str, Iterable[str]]], *, reserved: Collection[str] = ()) -> Iterator[Named]:
    """Each name as it is where one server has it; where several do, or we, each with its server in front."""
    offers = [(server, list(dict.fromkeys(names))) for server, names in offers]
    holders = Counter(name for _, names in offers for name in names)
    taken = set(reserved) | {name for name, number in holders.items() if number == 1}
    for server, names in offers:
        for name in names:
            if holders[name] == 1 and name not in reserved:
                yield Named(server, name, name)
                continue
            shown = _prefixed(server, name)
            if shown in taken:
                shown = _hashed(server, name)
            taken.add(shown)
            yield Named(server, name, shown)


def _prefixed(server: str, name: str) -> str:
    shown = f"{_NOT_IN_PREFIXES.sub('_', server)}__{_NOT_IN_NAMES.sub('_', name)}"
    return shown if len(shown) <= LONGEST_NAME else _hashed(server, name)


def _hashed(server: str, name: str) -> str:
    """Short enough for every client, and as unlike others as a hash is."""
    mark = sha256(f"{server}\0{name}".encode("utf-8", "replace")).hexdigest()[:8]
    start = f"{_NOT_IN_PREFIXES.sub('_', server)}__{_NOT_IN_NAMES.sub('_', name)}"[: LONGEST_NAME - len(mark) - 1]
    return f"{start}_{mark}"
