"""Vectors for what is stored: made before a write, made good after a failure, made anew by another embedder."""

import contextlib
import copy
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from satchel.embed.embedder import DEFAULT_EMBEDDER, Embedder, passages_inline, resolve_embedder
from satchel.errors import EmbedderError, InputError, StoreError
from satchel.model.memory import Memory
from satchel.store import index
from satchel.store.background import BackgroundThread
from satchel.store.contract import Embedded, Embedding
from satchel.store.store import Store
from satchel.text.passages import Part, parts_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Indexer", "packed"]

# After a failure nothing is tried for a while: no write should wait for a server that is down.
PAUSE_SECONDS = 60.0
CATCH_UP = 200
BATCH = 128
# With an embedder that takes its time: so many memories in one transaction, and so many passages before
# it is asked whether the program wants to end.
IN_BACKGROUND = 32
PASSAGES_AT_ONCE = 16
# How many passages of earlier texts are embedded while a search waits, fewer by an embedder that takes its time.
# Some are kept for the next search.
PAST_PASSAGES = 2_000
PAST_PASSAGES_SLOW = 48
PAST_KEPT = 4_000


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
        """Why the last call of the embedder failed, or embedding in the background; None if neither did."""
        self._background = BackgroundThread()
        self._looked = False
        self._tried: list[int] = []
        self._past: dict[tuple[str, str], tuple[bytes, bytes]] = {}
        self.embedder = self._agreed(wanted)

    def within(self, store: Store) -> "Indexer":
        """The same for another org's part of the store, which may have an embedder of its own."""
        other = copy.copy(self)
        other._store = store
        other._looked = False
        return other

    def close(self) -> None:
        """Stop embedding in the background, after the few passages it is at; what waits stays in the store."""
        self._background.stop()

    def _agreed(self, wanted: str | Embedder | None) -> Embedder | None:
        """The embedder to use; None where the store's own would send texts to a server nobody named."""
        held = self._held()
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
        """What to write along with these memories; None where it has to wait.

        An embedder that takes its time makes no vectors here for many passages, nor while a transaction is
        open: the memories are stored without, and `catch_up` makes them later.
        """
        # Vectors by another embedder than the store's are not written, and `catch_up` makes the right ones.
        embedder = self._ready(follow=False)
        if embedder is None:
            return None
        if self._store.in_transaction and embedder.name.startswith("openai:"):
            # Others would wait for a server, as long as the lock is held.
            return None
        made = [(memory.id, parts_of(memory)) for memory in memories]
        try:
            texts = dict.fromkeys(part.text for _, parts in made for part in parts)
            inline = passages_inline(embedder)
            if inline is not None and (len(texts) > inline or self._store.in_transaction):
                return Embedded(embedder.name, embedder.dimensions, _by_id(made), {})
            return self._made(embedder, made, _vectors(embedder, texts))
        except EmbedderError as error:
            self._pause(error)
            return None

    def _made(
        self,
        embedder: Embedder,
        made: Sequence[tuple[str, list[Part]]],
        vectors: Mapping[str, tuple[bytes, bytes]],
    ) -> Embedded:
        embedded = Embedded(embedder.name, embedder.dimensions, _by_id(made), vectors)
        self.trouble = None
        return embedded

    def query_vector(self, query: str) -> "NDArray[np.float32] | None":
        """The vector of a question; None without an embedder, or while it fails."""
        held = self._held()
        embedder = self._ready()
        if embedder is None or held is None or held.name != embedder.name or not held.dimensions:
            return None
        try:
            vector = _checked(embedder.embed([query]), embedder, count=1)[0]
        except EmbedderError as error:
            self._pause(error)
            return None
        if not self._looked:
            # What an earlier process left waiting goes on with the first question.
            self._looked = True
            self._go_on(embedder)
        return vector if len(vector) == held.dimensions and vector.any() else None

    def past_vectors(self, memories: Sequence[Memory]) -> Mapping[str, tuple[bytes, bytes]]:
        """The vectors of texts that the store holds no longer, by passage, of the first memories first.

        No more are made at a time than a search can wait for; what has none is found by its words. What was made
        is kept, so that the next search goes on from there.
        """
        held = self._held()
        embedder = self._ready()
        if embedder is None or held is None or held.name != embedder.name or not held.dimensions:
            return {}
        texts = list(dict.fromkeys(part.text for memory in memories for part in parts_of(memory)))
        most = PAST_PASSAGES if passages_inline(embedder) is None else PAST_PASSAGES_SLOW
        known = self._past
        missing = [text for text in texts if (embedder.name, text) not in known][:most]
        if missing and not (self._store.in_transaction and embedder.name.startswith("openai:")):
            try:
                made = _vectors(embedder, missing)
            except EmbedderError as error:
                self._pause(error)
                made = {}
            # Replaced as a whole, since other threads read it.
            kept = [*known.items(), *(((embedder.name, text), vector) for text, vector in made.items())]
            known = self._past = dict(kept[-PAST_KEPT:])
        return {text: vector for text in texts if (vector := known.get((embedder.name, text))) is not None}

    def catch_up(self) -> None:
        """Embed some of what waits, if anything does; in the background where the embedder takes its time.

        It follows a write that has succeeded, and never makes it look as if it had failed.
        """
        if self._store.in_transaction or self._is_paused:
            return
        with contextlib.suppress(StoreError):
            if not self._waiting(1) or (embedder := self._ready()) is None:
                return
            inline = passages_inline(embedder)
            if inline is None:
                self._embed_waiting(embedder, limit=CATCH_UP)
            elif self._background.awake or self._many_wait(inline):
                self._background.wake(self._step)
            else:
                self._embed_waiting(embedder, limit=inline)

    def catch_up_wholly(self, progress: Callable[[int], None] | None = None) -> int:
        """Embed all that waits, here and now; how many memories are done.

        What goes on in the background is taken over. Where the embedder fails, or is left alone after a
        failure, the rest waits on.
        """
        self._background.pause()
        done = 0
        before: list[int] | None = None
        while not self._store.in_transaction and (embedder := self._ready()) is not None:
            limit = CATCH_UP if passages_inline(embedder) is None else IN_BACKGROUND
            tried, made = self._embed_waiting(embedder, limit=limit)
            done += made
            if made and progress is not None:
                progress(done)
            # Others may have done these meanwhile; the same ones twice in vain are not tried for ever.
            if not tried or (not made and tried == before):
                break
            before = tried
        return done

    def _many_wait(self, most: int) -> bool:
        waiting = self._waiting(most + 1)
        return len(waiting) > most or sum(len(parts_of(memory)) for _, memory in waiting) > most

    def _go_on(self, embedder: Embedder) -> None:
        if passages_inline(embedder) is not None and not self._store.in_transaction:
            with contextlib.suppress(StoreError):
                if self._waiting(1):
                    self._background.wake(self._step)

    def _step(self, stopping: threading.Event) -> bool:
        """A few of the memories that wait, in a thread of its own; whether more wait."""
        try:
            embedder = self._ready()
            if embedder is None:
                return False
            tried, made = self._embed_waiting(embedder, limit=IN_BACKGROUND, stopping=stopping)
            # Another process may have done these meanwhile; the same ones twice in vain are left for later.
            more = bool(tried) and (made > 0 or tried != self._tried)
            self._tried = tried
            return more
        except Exception as error:  # noqa: BLE001 - nobody stands above a thread
            self.trouble = str(error) or type(error).__name__
            return False

    def _embed_waiting(
        self, embedder: Embedder, *, limit: int, stopping: threading.Event | None = None
    ) -> tuple[list[int], int]:
        """Embed the first that wait; which were tried, and how many of them are done."""
        waiting = self._waiting(limit)
        if not waiting:
            return [], 0
        keys = [key for key, _ in waiting]
        made = [(memory.id, parts_of(memory)) for _, memory in waiting]
        try:
            vectors = _vectors(embedder, (part.text for _, parts in made for part in parts), stopping)
            embedded = self._made(embedder, made, vectors)
            with self._store.writing() as tx:
                return keys, index.embed_backlog(tx, keys, embedded)
        except EmbedderError as error:
            self._pause(error)
            return keys, 0

    def reembed(
        self, wanted: str | Embedder | None = None, progress: Callable[[int, int], None] | None = None
    ) -> int:
        """Make all vectors anew by an embedder, beside the old ones, which serve until it is done.

        Stopped half-way, it goes on where it was. How many passages have been embedded.
        """
        self._background.pause()
        chosen = self._own() if wanted is None else resolve_embedder(wanted)
        embedding = Embedding(chosen.name, chosen.dimensions)
        self._store.refuse_inside_transaction("reembed")
        with self._store.writing() as tx:
            total = index.begin_reembedding(tx, embedding)
        done = 0
        after = -1
        while True:
            with self._store.reading() as tx:
                missing = index.unembedded(tx, embedding, after=after, limit=BATCH)
            if missing:
                after = missing[-1][0]
                vectors = _vectors(chosen, [text for _, text in missing])
                numbers = [number for number, _ in missing]
                with self._store.writing() as tx:
                    done += index.fill(tx, numbers, Embedded(*embedding, {}, vectors))
                if progress is not None:
                    progress(done, max(done, total))
                continue
            with self._store.writing() as tx:
                if index.finish_reembedding(tx, embedding):
                    break
            # Others have written meanwhile.
            after = -1
        self.embedder = chosen
        return done

    def _held(self) -> Embedding | None:
        """The embedder whose vectors the store holds; None before there are any."""
        with self._store.reading() as tx:
            return index.embedding(tx)

    def _waiting(self, limit: int) -> list[tuple[int, Memory]]:
        """The first memories that wait to be embedded, by the store's own numbers."""
        with self._store.reading() as tx:
            return index.backlog(tx, limit=limit)

    def _own(self) -> Embedder:
        """The embedder to make this store's vectors with again, which must not be a server nobody named."""
        self._follow()
        if self.embedder is None:
            held = self._held()
            raise InputError(
                f"this store's vectors were made by the embedder {held.name if held else None}; "
                "name it to make them again, or name another one"
            )
        return self.embedder

    @property
    def _is_paused(self) -> bool:
        return self._paused_until is not None and self._clock() < self._paused_until

    def _ready(self, *, follow: bool = True) -> Embedder | None:
        """The embedder, unless it is to be left alone after a failure.

        Without `follow` the store is not asked whether it has another one by now, unless texts go to a server.
        """
        if self._is_paused:
            return None
        if follow or self.embedder is None or self.embedder.name.startswith("openai:"):
            self._follow()
        return self.embedder

    def _follow(self) -> None:
        """Another process may have given the store another embedder."""
        held = self._held()
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


def _vectors(
    embedder: Embedder, texts: Iterable[str], stopping: threading.Event | None = None
) -> Mapping[str, tuple[bytes, bytes]]:
    """The packed vector of each text, each embedded once; with an event, a few at a time and until it is set."""
    wanted = list(dict.fromkeys(texts))
    if not wanted or embedder.name == "none":
        return {}
    size = len(wanted) if stopping is None else PASSAGES_AT_ONCE
    vectors: dict[str, tuple[bytes, bytes]] = {}
    for start in range(0, len(wanted), size):
        if stopping is not None and stopping.is_set():
            break
        some = wanted[start : start + size]
        rows = _checked(embedder.embed(some), embedder, count=len(some))
        vectors.update(zip(some, packed(rows), strict=True))
    return vectors


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
