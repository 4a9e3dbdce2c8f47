"""Vectors for what is stored: made before a write, made good after a failure, made anew by another embedder."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from satchel.embed import DEFAULT_EMBEDDER, Embedder, resolve_embedder
from satchel.errors import EmbedderError, InputError
from satchel.memory import Memory
from satchel.parts import parts_of
from satchel.store import Embedded, Embedding, Store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Indexer", "packed"]

# After a failure nothing is tried for a while: no write should wait for a server that is down.
PAUSE_SECONDS = 60.0
CATCH_UP = 200
BATCH = 500


class Indexer:
    """Joins a store with the embedder of its vectors."""

    def __init__(self, store: Store, wanted: str | Embedder | None = None) -> None:
        self._store = store
        self._paused_until = 0.0
        self.embedder = self._agreed(wanted)

    def _agreed(self, wanted: str | Embedder | None) -> Embedder | None:
        """The embedder to use; None where the store's own would send texts to a server nobody named."""
        held = self._store.embedding()
        if wanted is None:
            if held is None:
                return resolve_embedder(DEFAULT_EMBEDDER)
            if held.name.startswith("openai:"):
                return None
            return resolve_embedder(held.name, dimensions=held.dimensions)
        chosen = resolve_embedder(wanted, dimensions=held.dimensions if held else None)
        if held is not None and held.name != chosen.name:
            raise InputError(
                f"this store's vectors were made by the embedder {held.name}, not by {chosen.name}; "
                f"open it without naming one, or run `satchel reembed --embedder {chosen.name}`"
            )
        return chosen

    def embedded(self, memories: Iterable[Memory]) -> Embedded | None:
        """What to write along with these memories; None where it has to wait."""
        embedder = self.embedder
        if embedder is None or time.monotonic() < self._paused_until:
            return None
        if self._store.in_transaction and embedder.name.startswith("openai:"):
            # Others would wait for a server, as long as the lock is held.
            return None
        parts = {memory.id: parts_of(memory) for memory in memories}
        if embedder.name == "none":
            return Embedded("none", 0, parts, {})
        texts = list(dict.fromkeys(part.text for each in parts.values() for part in each))
        try:
            vectors = dict(zip(texts, packed(embedder.embed(texts)), strict=True))
            return Embedded(embedder.name, embedder.dimensions, parts, vectors)
        except EmbedderError:
            self._paused_until = time.monotonic() + PAUSE_SECONDS
            return None

    def query_vector(self, query: str) -> "NDArray[np.float32] | None":
        """The vector of a question; None without an embedder, or while it fails."""
        embedder = self.embedder
        held = self._store.embedding()
        if embedder is None or held is None or held.name != embedder.name or not held.dimensions:
            return None
        if time.monotonic() < self._paused_until:
            return None
        try:
            vector = embedder.embed([query])[0]
        except EmbedderError:
            self._paused_until = time.monotonic() + PAUSE_SECONDS
            return None
        return vector if vector.any() else None

    def catch_up(self, *, limit: int = CATCH_UP) -> int:
        """Embed some of what waits, if anything does; how many memories are done."""
        waiting = self._store.backlog(limit=limit)
        if not waiting:
            return 0
        embedded = self.embedded(memory for _, memory in waiting)
        return 0 if embedded is None else self._store.embed_backlog([key for key, _ in waiting], embedded)

    def reembed(
        self, wanted: str | Embedder | None = None, progress: Callable[[int, int], None] | None = None
    ) -> int:
        """Make all vectors anew by an embedder, beside the old ones, which serve until it is done.

        Stopped half-way, it goes on where it was. How many passages have been embedded.
        """
        held = self._store.embedding()
        chosen = resolve_embedder(wanted if wanted is not None else (held.name if held else DEFAULT_EMBEDDER))
        total = self._store.begin_reembedding(Embedding(chosen.name, chosen.dimensions))
        done = after = 0
        while True:
            missing = self._store.unembedded(after=after, limit=BATCH)
            if not missing:
                if self._store.finish_reembedding():
                    break
                # Others have written meanwhile.
                after = 0
                continue
            self._store.fill([number for number, _ in missing], packed(chosen.embed([text for _, text in missing])))
            after = missing[-1][0]
            done += len(missing)
            if progress is not None:
                progress(min(done, total), total)
        self.embedder = chosen
        return done


def packed(vectors: "NDArray[np.float32]") -> Sequence[tuple[bytes, bytes]]:
    """Each row as a byte for each number, stretched to use all of it, and as one bit for its sign."""
    import numpy as np

    if not vectors.size:
        return [(b"", b"")] * len(vectors)
    peak = np.abs(vectors).max(axis=1, keepdims=True)
    whole = np.rint(vectors * (127 / np.where(peak > 0, peak, 1))).astype(np.int8)
    signs = np.packbits(whole > 0, axis=1)
    return [(row.tobytes(), bits.tobytes()) for row, bits in zip(whole, signs, strict=True)]
