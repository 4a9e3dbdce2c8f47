"""A portable context pack as the lines of an export."""

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from satchel.errors import InputError
from satchel.fitting.portable_json import PACK_VERSION
from satchel.model.memory import SCOPE_FIELDS

__all__ = ["unpacked"]

_MARKDOWN = re.compile(rb"# (?:Project )?Context\b.*\(\d+ memor")

_encode = msgspec.json.Encoder().encode


def unpacked(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines as they are; or, where all of them together are one context pack, a line for each memory.

    The first line stands for what the pack says of itself, so that each memory keeps the number of its line.
    """
    rest = iter(lines)
    first = list(itertools.islice(rest, 1))
    if first and isinstance(first[0], bytes) and _MARKDOWN.match(first[0]):
        raise InputError("a context pack as markdown; only one made with --json can be imported")
    if not first or not isinstance(first[0], bytes) or not _opens_a_pack(first[0]):
        yield from itertools.chain(first, rest)
        return
    try:
        pack = msgspec.json.decode(b"".join([*first, *rest]).removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not a whole JSON object: {error}") from None
    if not isinstance(pack, dict) or pack.get("satchel") != "context-pack":
        raise InputError("neither JSON lines nor a context pack")
    if pack.get("version") != PACK_VERSION:
        raise InputError(f"pack version {pack.get('version')!r} is not known here; upgrade Satchel")
    memories = pack.get("memories")
    if not isinstance(memories, list):
        raise InputError("the pack has no list of memories")
    yield b"\n"
    for memory in memories:
        yield _encode({"memory": _stored(memory)} if isinstance(memory, dict) else memory)


def _opens_a_pack(line: bytes) -> bool:
    """Whether a first line does not end what it opens, as one of an export does."""
    content = line.removeprefix(b"\xef\xbb\xbf").strip()
    if not content.startswith(b"{"):
        return False
    try:
        value = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return content == b"{" or b'"context-pack"' in content
    return isinstance(value, dict) and value.get("satchel") == "context-pack"


def _stored(memory: dict[str, Any]) -> dict[str, Any]:
    """A packed memory with the fields that a stored one has; what was packed is as old as what it tells."""
    fields = {name: value for name, value in memory.items() if name not in SCOPE_FIELDS}
    scope = {name: memory[name] for name in SCOPE_FIELDS if memory.get(name) is not None}
    moment = memory.get("at")
    return {"created_at": moment, "updated_at": moment, "tokens": 0} | fields | {"scope": scope}
