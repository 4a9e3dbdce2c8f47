"""Vectors for what is stored: made before a write, made good after a failure, made anew by another embedder."""

import contextlib
import copy
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from satchel.embed import DEFAULT_EMBEDDER, Embedder, resolve_embedder
from satchel.errors import EmbedderError, InputError, StoreError
from satchel.memory import Memory
from satchel.parts import Part, parts_of
from satchel.store import Embedded, Embedding, Store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Indexer", "packed"]

# After a failure nothing is tried for a while: no write should wait for a server that is down.
PAUSE_SECONDS = 60.0
CATCH_UP = 200
BATCH = 128


class Indexer:
    """Joins a store with the embedder of its vectors."""

    def __init__(
        self,
        store: Store,
        wanted: str | Embedder | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._clock = clock
        self._paused_until: float | None = None
        self.trouble: str | None = None
        """Why the last call of the embedder failed; None if it did not."""
        self.embedder = self._agreed(wanted)

    def within(self, store: Store) -> "Indexer":
        """The same for another org's part of the store, which may have an embedder of its own."""
        other = copy.copy(self)
        other._store = store
        return other

    def _agreed(self, wanted: str | Embedder | None) -> Embedder | None:
        """The embedder to use; None where the store's own would send texts to a server nobody named."""
        held = self._store.embedding()
        if wanted is None:
            return resolve_embedder(DEFAULT_EMBEDDER) if held is None else _own(held)
        chosen = resolve_embedder(wanted, dimensions=held.dimensions if held else None)
        if held is not None and held.name != chosen.name:
            change = f"run `satchel reembed --embedder {shlex.quote(chosen.name)}`"
            if not isinstance(wanted, str):
                change = "give this one to its `reembed`"
            raise InputError(
                f"this store's vectors were made by the embedder {held.name}, not by {chosen.name}; "
                f"open it without naming one, or {change}"
            )
        return chosen

    def embedded(self, memories: Iterable[Memory]) -> Embedded | None:
        """What to write along with these memories; None where it has to wait."""
        embedder = self._ready()
        if embedder is None:
            return None
        if self._store.in_transaction and embedder.name.startswith("openai:"):
            # Others would wait for a server, as long as the lock is held.
            return None
        made = [(memory.id, parts_of(memory)) for memory in memories]
        try:
            vectors = _vectors(embedder, [part.text for _, parts in made for part in parts])
            self.trouble = None
            return Embedded(embedder.name, embedder.dimensions, _by_id(made), vectors)
        except EmbedderError as error:
            self._pause(error)
            return None

    def query_vector(self, query: str) -> "NDArray[np.float32] | None":
        """The vector of a question; None without an embedder, or while it fails."""
        held = self._store.embedding()
        embedder = self._ready()
        if embedder is None or held is None or held.name != embedder.name or not held.dimensions:
            return None
        try:
            vector = _checked(embedder.embed([query]), embedder, count=1)[0]
        except EmbedderError as error:
            self._pause(error)
            return None
        return vector if len(vector) == held.dimensions and vector.any() else None

    def catch_up(self, *, limit: int = CATCH_UP) -> int:
        """Embed some of what waits, if anything does; how many memories are done.

        It follows a write that has succeeded, and never makes it look as if it had failed.
        """
        if self._store.in_transaction or self._ready() is None:
            return 0
        with contextlib.suppress(StoreError):
            waiting = self._store.backlog(limit=limit)
            embedded = self.embedded(memory for _, memory in waiting) if waiting else None
            if embedded is not None:
                return self._store.embed_backlog([key for key, _ in waiting], embedded)
        return 0

    def reembed(
        self, wanted: str | Embedder | None = None, progress: Callable[[int, int], None] | None = None
    ) -> int:
        """Make all vectors anew by an embedder, beside the old ones, which serve until it is done.

        Stopped half-way, it goes on where it was. How many passages have been embedded.
        """
        chosen = self._own() if wanted is None else resolve_embedder(wanted)
        embedding = Embedding(chosen.name, chosen.dimensions)
        total = self._store.begin_reembedding(embedding)
        done = 0
        after = -1
        while True:
            missing = self._store.unembedded(embedding, after=after, limit=BATCH)
            if missing:
                after = missing[-1][0]
                vectors = _vectors(chosen, [text for _, text in missing])
                done += self._store.fill([number for number, _ in missing], Embedded(*embedding, {}, vectors))
                if progress is not None:
                    progress(done, max(done, total))
            elif self._store.finish_reembedding(embedding):
                break
            else:
                # Others have written meanwhile.
                after = -1
        self.embedder = chosen
        return done

    def _own(self) -> Embedder:
        """The embedder to make this store's vectors with again, which must not be a server nobody named."""
        self._follow()
        if self.embedder is None:
            held = self._store.embedding()
            raise InputError(
                f"this store's vectors were made by the embedder {held.name if held else None}; "
                "name it to make them again, or name another one"
            )
        return self.embedder

    def _ready(self) -> Embedder | None:
        """The embedder, unless it is to be left alone after a failure."""
        if self._paused_until is not None and self._clock() < self._paused_until:
            return None
        self._follow()
        return self.embedder

    def _follow(self) -> None:
        """Another process may have given the store another embedder."""
        held = self._store.embedding()
        if held is not None and (self.embedder is None or self.embedder.name != held.name):
            self.embedder = _own(held)

    def _pause(self, error: EmbedderError) -> None:
        self._paused_until = self._clock() + PAUSE_SECONDS
        self.trouble = str(error)


def _own(held: Embedding) -> Embedder | None:
    """The embedder a store records, where it is one of ours and runs here."""
    if held.name.startswith("openai:"):
        return None
    try:
        return resolve_embedder(held.name, dimensions=held.dimensions)
    except InputError:
        # Someone's own, which only they can give.
        return None


def _by_id(made: Sequence[tuple[str, list[Part]]]) -> Mapping[str, list[Part]]:
    """Without the ids that come twice with different words: which of them is stored is decided later."""
    by_id = dict(made)
    differing = {identifier for identifier, parts in made if parts != by_id[identifier]}
    return {identifier: parts for identifier, parts in made if identifier not in differing}


def _vectors(embedder: Embedder, texts: Iterable[str]) -> Mapping[str, tuple[bytes, bytes]]:
    """The packed vector of each text, each embedded once."""
    wanted = list(dict.fromkeys(texts))
    if not wanted or embedder.name == "none":
        return {}
    return dict(zip(wanted, packed(_checked(embedder.embed(wanted), embedder, count=len(wanted))), strict=True))


def _checked(vectors: "NDArray[np.float32]", embedder: Embedder, *, count: int) -> "NDArray[np.float32]":
    """A store would not take vectors of another size, and would keep what is no number for ever."""
    import numpy as np

    shape = (count, embedder.dimensions)
    if np.shape(vectors) != shape or not np.isfinite(vectors).all():
        raise EmbedderError(
            f"{embedder.name} gave vectors of shape {np.shape(vectors)} where {shape} finite ones are needed"
        )
    return vectors


def packed(vectors: "NDArray[np.float32]") -> Sequence[tuple[bytes, bytes]]:
    """Each row as a byte for each number, stretched to use all of it, and as one bit for its sign."""
    import numpy as np

    if not vectors.size:
        return [(b"", b"")] * len(vectors)
    peak = np.abs(vectors).max(axis=1, keepdims=True)
    whole = np.rint(vectors * (127 / np.where(peak > 0, peak, 1))).astype(np.int8)
    signs = np.packbits(whole > 0, axis=1)
    return [(row.tobytes(), bits.tobytes()) for row, bits in zip(whole, signs, strict=True)]
