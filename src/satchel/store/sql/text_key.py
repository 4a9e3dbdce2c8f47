"""The hash by which a store looks for a text that it holds already."""

import hashlib
from functools import lru_cache, partial

from satchel.model.memory import Memory
from satchel.store.sql.rows import scope_columns

__all__ = ["spell_nul", "text_key"]

# PostgreSQL has no NUL in a text: it and the sign it is written with are spelled out.
_SPELLED = {0: "\ufdd00", 0xFDD0: "\ufdd01"}


def spell_nul(text: str) -> str:
    """A text as PostgreSQL can keep it; the hash is of this form in every store."""
    return text.translate(_SPELLED) if "\0" in text or "\ufdd0" in text else text


def text_key(memory: Memory) -> int | None:
    """64 bits of MD5 over the scope without its org, and the text. None for a turn, which is never merged.

    PostgreSQL computes the same in a generated column. Two texts may share a key: compare them too.
    """
    if memory.tier == "conversation":
        return None
    digest = _begun(*scope_columns(memory.scope)[1:]).copy()
    digest.update(spell_nul(memory.text).encode())
    return int.from_bytes(digest.digest()[:8], signed=True)


@lru_cache(maxsize=1024)
def _begun(*names: str) -> "hashlib._Hash":
    """The hash of a scope, to go on with; its parts are of one length, so that none runs into the next."""
    return _md5("".join(_md5(spell_nul(name).encode()).hexdigest() for name in names).encode())


_md5 = partial(hashlib.md5, usedforsecurity=False)
