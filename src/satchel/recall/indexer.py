"""Create the vectors of memories: before a write, in the background if there are many, again for a new embedder."""

import atexit
import contextlib
import copy
import os
import shlex
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from satchel.embed.embedder import DEFAULT_EMBEDDER, Embedder, passages_inline, resolve_embedder
from satchel.errors import EmbedderError, InputError, StoreError
from satchel.model.memory import Memory, Scope
from satchel.model.scope_fields import DEFAULT_ORG
from satchel.store import index
from satchel.store.contract import Embedded, Embedding
from satchel.store.store import Store
from satchel.text.passages import Part, parts_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from satchel.recall.columns import ColumnCache

__all__ = ["CACHE_MB", "BackgroundThread", "Indexer", "Kept", "Step", "cache_bytes", "packed"]


# A background thread.


Step: TypeAlias = Callable[[threading.Event], bool]
"""Does a little work and returns whether more is left. It must not raise, and ends soon after the event is set."""


class _Worker(NamedTuple):
    thread: threading.Thread
    stopping: threading.Event


class BackgroundThread:
    """Repeats small steps of work in a thread, as long as there is work.

    The thread is a daemon and exists only while there is work. At exit, the program waits for the current step,
    because no C library may be unloaded while a thread uses it.
    """

    def __init__(self) -> None:
        self._stopped = False
        self._begin()
        _all.add(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._wanted: dict[Step, None] = {}
        self._worker: _Worker | None = None
        self._pid = os.getpid()

    @property
    def awake(self) -> bool:
        """Whether the thread is running."""
        self._reset_after_fork()
        return self._worker is not None

    def wake(self, step: Step) -> None:
        """Repeat a step in the thread until no work is left. The same step is never queued twice."""
        self._reset_after_fork()
        with self._lock:
            if self._stopped:
                return
            self._wanted[step] = None
            if self._worker is None:
                stopping = threading.Event()
                thread = threading.Thread(
                    target=self._run, args=(stopping,), name="satchel-background", daemon=True
                )
                # During shutdown no thread can be started; the work is left for the next process.
                with contextlib.suppress(RuntimeError):
                    thread.start()
                    self._worker = _Worker(thread, stopping)

    def pause(self) -> None:
        """Clear the queue, and return when the current step is over; `wake` starts the thread again."""
        self._reset_after_fork()
        with self._lock:
            self._wanted.clear()
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.stopping.set()
            if worker.thread is not threading.current_thread():
                worker.thread.join()

    def stop(self) -> None:
        """Pause permanently: `wake` does nothing from then on."""
        self._stopped = True
        self.pause()

    def _run(self, stopping: threading.Event) -> None:
        while (step := self._next(stopping)) is not None:
            while not stopping.is_set() and step(stopping):
                pass

    def _next(self, stopping: threading.Event) -> Step | None:
        with self._lock:
            if stopping.is_set():
                return None
            step = next(iter(self._wanted), None)
            if step is None:
                self._worker = None
            else:
                del self._wanted[step]
            return step

    def _reset_after_fork(self) -> None:
        """Start afresh in a forked child, which has neither the thread nor the owner of the lock."""
        if self._pid != os.getpid():
            self._begin()


_all: "weakref.WeakSet[BackgroundThread]" = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    for each in list(_all):
        each.stop()


# Indexing.


# After a failure the embedder is not used for a while, so that writes do not wait for a server that is down.
PAUSE_SECONDS = 60.0
# How many memories a fast embedder catches up with at once, and how many passages are reembedded at once.
CATCH_UP = 200
BATCH = 128
# For a slow embedder: how many memories are written in one transaction, and how many passages are embedded before
# the stop event is checked.
IN_BACKGROUND = 32
PASSAGES_AT_ONCE = 16
# How many passages of earlier texts are embedded during a search (fewer by a slow embedder), and how many are
# cached.
PAST_PASSAGES = 2_000
PAST_PASSAGES_SLOW = 48
PAST_CACHED = 4_000
# How many vectors of questions are kept, and how long such a question may be. An agent often asks for a context
# with the question that it has just searched for.
QUESTIONS_KEPT = 64
LONGEST_KEPT = 2_000
# Of how many orgs the embedding is remembered.
ORGS_EXPECTED = 10_000


MEGABYTE = 10**6
CACHE_MB = 256
"""How much memory the columns of searches may take."""
_CACHE = "SATCHEL_CACHE_MB"


def cache_bytes(megabytes: int | None) -> int:
    """Return a limit in bytes: the one given, or $SATCHEL_CACHE_MB, or 256 MB."""
    if megabytes is not None:
        if not isinstance(megabytes, int) or isinstance(megabytes, bool) or megabytes < 0:
            raise InputError(f"cache_mb must be a whole number of megabytes, not {megabytes!r}; 0 keeps nothing")
        return megabytes * MEGABYTE
    text = os.environ.get(_CACHE, "").strip() or str(CACHE_MB)
    if not (text.isascii() and text.isdigit()):
        raise InputError(f"${_CACHE} must be a whole number of megabytes, not {text!r}; 0 keeps nothing")
    return int(text) * MEGABYTE


class Kept(NamedTuple):
    """How many bytes of columns are kept in memory, and how many may be."""

    used: int
    limit: int


class Indexer:
    """A store and the embedder of its vectors.

    Memories that cannot be embedded at once wait in the backlog of the store, and are found by their words
    meanwhile.
    """

    def __init__(
        self,
        store: Store,
        wanted: str | Embedder | None = None,
        *,
        cache_bytes: int = CACHE_MB * MEGABYTE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._clock = clock
        self._paused_until: float | None = None
        self.trouble: str | None = None
        """Why the last call of the embedder or the background thread failed; None if it succeeded."""
        self._background = BackgroundThread()
        self._resumed = False
        self._tried: list[int] = []
        self._past: dict[tuple[str, str], tuple[bytes, bytes]] = {}
        self._expected: dict[str, Embedding] = {}
        self._questions: OrderedDict[tuple[str, str, str], NDArray[np.float32]] = OrderedDict()
        self._cache_bytes = cache_bytes
        self._columns: list[ColumnCache] = []
        self.embedder = self._choose_embedder(wanted)

    @property
    def columns(self) -> "ColumnCache":
        """The columns that searches keep between calls. All orgs of a store share them."""
        if not self._columns:
            # Imported here: numpy takes longer to load than most commands.
            from satchel.recall.columns import ColumnCache

            # A list that copies of this indexer share. If two threads append at once, both use the first.
            self._columns.append(ColumnCache(self._cache_bytes))
        return self._columns[0]

    def kept(self, scope: Scope) -> Kept:
        """Return how much is kept in memory between calls, of this scope and those inside it."""
        return Kept(self._columns[0].bytes_within(scope) if self._columns else 0, self._cache_bytes)

    def within(self, store: Store) -> "Indexer":
        """Return an indexer for another org of the store, which may have another embedder."""
        other = copy.copy(self)
        other._store = store
        other._resumed = False
        return other

    def close(self) -> None:
        """Stop embedding in the background after the current passages. The backlog stays in the store."""
        self._background.stop()

    def _choose_embedder(self, wanted: str | Embedder | None) -> Embedder | None:
        """Return the embedder to use; None if the store's own is a server that the user did not name."""
        recorded = self._recorded()
        if wanted is None:
            return resolve_embedder(DEFAULT_EMBEDDER) if recorded is None else _own_embedder(recorded)
        chosen = resolve_embedder(wanted, dimensions=recorded.dimensions if recorded else None)
        if recorded is not None and recorded.name != chosen.name:
            change = f"run `satchel reembed --embedder {shlex.quote(chosen.name)}`"
            if not isinstance(wanted, str):
                change = "pass this embedder to `reembed`"
            raise InputError(
                f"this store's vectors were made by the embedder {recorded.name}, not by {chosen.name}; "
                f"open it without an embedder, or {change}"
            )
        return chosen

    def embedded(self, memories: Iterable[Memory]) -> Embedded | None:
        """Return the passages and vectors to write with these memories; None if that has to wait.

        A slow embedder creates no vectors here for many passages, or inside a transaction: the memories are stored
        without vectors, and `catch_up` creates them later.
        """
        # If the store has another embedder by now, these vectors are not written, and `catch_up` creates new ones.
        embedder = self._ready(follow=False)
        if embedder is None:
            return None
        if self._store.in_transaction and embedder.name.startswith("openai:"):
            # Other writers would have to wait for the server while the lock is held.
            return None
        made = [(memory.id, parts_of(memory)) for memory in memories]
        try:
            texts = dict.fromkeys(part.text for _, parts in made for part in parts)
            inline = passages_inline(embedder)
            if inline is not None and (len(texts) > inline or self._store.in_transaction):
                return Embedded(embedder.name, embedder.dimensions, _by_id(made), {})
            return self._embedded(embedder, made, _vectors(embedder, texts))
        except EmbedderError as error:
            self._pause(error)
            return None

    def _embedded(
        self,
        embedder: Embedder,
        made: Sequence[tuple[str, list[Part]]],
        vectors: Mapping[str, tuple[bytes, bytes]],
    ) -> Embedded:
        embedded = Embedded(embedder.name, embedder.dimensions, _by_id(made), vectors)
        self.trouble = None
        return embedded

    def embedding(self, *, org: str, expected: bool = False) -> Embedding | None:
        """Return the embedding that the store of an org records; None if it has no vectors yet.

        With `expected`, it may be the one that was recorded before, if this indexer has its embedder. The caller
        makes sure when it reads the store. A server is not asked on such a guess.
        """
        if expected and self.embedder is not None and not self.embedder.name.startswith("openai:"):
            known = self._expected.get(org)
            if known is not None and known.name == self.embedder.name:
                return known
        recorded = self._recorded()
        if recorded is not None:
            if len(self._expected) >= ORGS_EXPECTED:
                self._expected.clear()
            self._expected[org] = recorded
        return recorded

    def query_vector(
        self, query: str, *, org: str = DEFAULT_ORG, recorded: Embedding | None = None
    ) -> "NDArray[np.float32] | None":
        """Return the vector of a question; None if there is no embedder or it fails.

        `recorded` is the embedding of the store, if it is known.
        """
        recorded = recorded or self._recorded()
        embedder = self._ready(recorded)
        if embedder is None or recorded is None or recorded.name != embedder.name or not recorded.dimensions:
            return None
        try:
            vector = self._question_vector(embedder, query, org)
        except EmbedderError as error:
            self._pause(error)
            return None
        if not self._resumed:
            # The first question resumes the backlog of an earlier process.
            self._resumed = True
            self._resume(embedder)
        return vector if len(vector) == recorded.dimensions and vector.any() else None

    def _question_vector(self, embedder: Embedder, query: str, org: str) -> "NDArray[np.float32]":
        """Return the vector of a question, from the last questions of the org if it is one of them.

        Orgs do not share them: the time of an answer would tell what another org has asked.
        """
        key = (org, embedder.name, query)
        kept = self._questions.get(key)
        if kept is not None:
            # Another thread may have removed it.
            with contextlib.suppress(KeyError):
                self._questions.move_to_end(key)
            return kept
        vector: NDArray[np.float32] = _checked(embedder.embed([query]), embedder, count=1)[0]
        if len(query) <= LONGEST_KEPT:
            # A copy: the embedder may use its array again.
            vector = vector.copy()
            vector.setflags(write=False)
            self._questions[key] = vector
            if len(self._questions) > QUESTIONS_KEPT:
                with contextlib.suppress(KeyError):
                    self._questions.popitem(last=False)
        return vector

    def past_vectors(self, memories: Sequence[Memory]) -> Mapping[str, tuple[bytes, bytes]]:
        """Return vectors by passage for texts that the store no longer has; the first memories come first.

        Each call creates only as many as a search can wait for; memories without vectors are found by their words.
        Vectors are cached, so that the next search continues from there.
        """
        recorded = self._recorded()
        embedder = self._ready(recorded)
        if embedder is None or recorded is None or recorded.name != embedder.name or not recorded.dimensions:
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
            # Replaced as a whole, because other threads read it.
            kept = [*known.items(), *(((embedder.name, text), vector) for text, vector in made.items())]
            known = self._past = dict(kept[-PAST_CACHED:])
        return {text: vector for text in texts if (vector := known.get((embedder.name, text))) is not None}

    def catch_up(self) -> None:
        """Embed a part of the backlog, if there is any; in the background if the embedder is slow.

        This is called after a successful write, so errors of the store are suppressed.
        """
        if self._store.in_transaction or self._is_paused:
            return
        with contextlib.suppress(StoreError):
            if not self._is_behind() or (embedder := self._ready()) is None:
                return
            inline = passages_inline(embedder)
            if inline is None:
                self._embed_waiting(embedder, limit=CATCH_UP)
            elif self._background.awake or self._many_wait(inline):
                self._background.wake(self._step)
            else:
                self._embed_waiting(embedder, limit=inline)

    def catch_up_wholly(self, progress: Callable[[int], None] | None = None) -> int:
        """Embed the whole backlog now, and return how many memories were embedded.

        The background thread is paused. If the embedder fails, or is paused after a failure, the rest stays in the
        backlog.
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
            # Another process may have embedded these meanwhile. If the same ones fail twice, give up.
            if not tried or (not made and tried == before):
                break
            before = tried
        return done

    def _many_wait(self, most: int) -> bool:
        waiting = self._waiting(most + 1)
        return len(waiting) > most or sum(len(parts_of(memory)) for _, memory in waiting) > most

    def _resume(self, embedder: Embedder) -> None:
        if passages_inline(embedder) is not None and not self._store.in_transaction:
            with contextlib.suppress(StoreError):
                if self._is_behind():
                    self._background.wake(self._step)

    def _step(self, stopping: threading.Event) -> bool:
        """Embed a few memories of the backlog in the background thread; return whether more are left."""
        try:
            embedder = self._ready()
            if embedder is None:
                return False
            tried, made = self._embed_waiting(embedder, limit=IN_BACKGROUND, stopping=stopping)
            # Another process may have embedded these meanwhile. If the same ones fail twice, leave them for later.
            more = bool(tried) and (made > 0 or tried != self._tried)
            self._tried = tried
            return more
        except Exception as error:  # noqa: BLE001 - outermost handler of a thread
            self.trouble = str(error) or type(error).__name__
            return False

    def _embed_waiting(
        self, embedder: Embedder, *, limit: int, stopping: threading.Event | None = None
    ) -> tuple[list[int], int]:
        """Embed the first memories of the backlog; return which were tried, and how many succeeded."""
        waiting = self._waiting(limit)
        if not waiting:
            return [], 0
        keys = [key for key, _ in waiting]
        made = [(memory.id, parts_of(memory)) for _, memory in waiting]
        try:
            vectors = _vectors(embedder, (part.text for _, parts in made for part in parts), stopping)
            embedded = self._embedded(embedder, made, vectors)
            with self._store.writing() as tx:
                return keys, index.embed_backlog(tx, keys, embedded)
        except EmbedderError as error:
            self._pause(error)
            return keys, 0

    def reembed(
        self, wanted: str | Embedder | None = None, progress: Callable[[int, int], None] | None = None
    ) -> int:
        """Create all vectors again with an embedder, and return how many passages were embedded.

        The old vectors are used until the new ones are complete. If interrupted, the next call continues.
        """
        self._background.pause()
        chosen = self._own_embedder() if wanted is None else resolve_embedder(wanted)
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
            # Other processes have written meanwhile.
            after = -1
        self.embedder = chosen
        return done

    def _recorded(self) -> Embedding | None:
        """Return the embedder that the store records; None if it has no vectors yet."""
        with self._store.reading() as tx:
            return index.embedding(tx)

    def _is_behind(self) -> bool:
        with self._store.reading() as tx:
            return index.has_backlog(tx)

    def _waiting(self, limit: int) -> list[tuple[int, Memory]]:
        """Return the first memories of the backlog, with their keys."""
        with self._store.reading() as tx:
            return index.backlog(tx, limit=limit)

    def _own_embedder(self) -> Embedder:
        """Return the store's own embedder for `reembed`; raise if that is a server that the user did not name."""
        self._follow()
        if self.embedder is None:
            recorded = self._recorded()
            raise InputError(
                f"this store's vectors were made by the embedder {recorded.name if recorded else None}; "
                "name it to create them again, or name another one"
            )
        return self.embedder

    @property
    def _is_paused(self) -> bool:
        return self._paused_until is not None and self._clock() < self._paused_until

    def _ready(self, recorded: Embedding | None = None, *, follow: bool = True) -> Embedder | None:
        """Return the embedder; None if it is paused after a failure. `recorded` is the store's, if it is known.

        With `follow=False`, a change of the store's embedder is checked only if texts would go to a server.
        """
        if self._is_paused:
            return None
        if follow or self.embedder is None or self.embedder.name.startswith("openai:"):
            self._follow(recorded)
        return self.embedder

    def _follow(self, recorded: Embedding | None = None) -> None:
        """Switch to the store's embedder if another process has changed it."""
        recorded = recorded or self._recorded()
        if recorded is not None and (self.embedder is None or self.embedder.name != recorded.name):
            self.embedder = _own_embedder(recorded)

    def _pause(self, error: EmbedderError) -> None:
        self._paused_until = self._clock() + PAUSE_SECONDS
        self.trouble = str(error)


def _own_embedder(recorded: Embedding) -> Embedder | None:
    """Return the embedder that a store records if it is built in and runs locally, otherwise None."""
    if recorded.name.startswith("openai:"):
        return None
    try:
        return resolve_embedder(recorded.name, dimensions=recorded.dimensions)
    except InputError:
        # A custom embedder, which only the caller can provide.
        return None


def _by_id(made: Sequence[tuple[str, list[Part]]]) -> Mapping[str, list[Part]]:
    """Return the passages by id, without ids that occur with different texts: the store decides which is kept."""
    by_id = dict(made)
    differing = {identifier for identifier, parts in made if parts != by_id[identifier]}
    return {identifier: parts for identifier, parts in made if identifier not in differing}


def _vectors(
    embedder: Embedder, texts: Iterable[str], stopping: threading.Event | None = None
) -> Mapping[str, tuple[bytes, bytes]]:
    """Return the packed vector of each distinct text; with an event, work in small batches until it is set."""
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
    """Return the vectors if they have the expected shape and are finite; otherwise raise an error."""
    import numpy as np

    found, shape = np.asarray(vectors), (count, embedder.dimensions)
    if found.shape != shape or not np.logical_and.reduce(np.isfinite(found), None):
        raise EmbedderError(
            f"{embedder.name} returned vectors of shape {found.shape}, expected finite ones of shape {shape}"
        )
    return found


# Divided by this, a vector of zeros stays what it is.
_SMALLEST = 1e-30


def packed(vectors: "NDArray[np.float32]") -> Sequence[tuple[bytes, bytes]]:
    """Return each row as int8, scaled to the full range, and as sign bits."""
    import numpy as np

    if not vectors.size:
        return [(b"", b"")] * len(vectors)
    # Few calls: for one vector, each takes longer than the numbers.
    peak = np.maximum.reduce(np.abs(vectors), 1, keepdims=True)
    scaled = vectors * (127 / np.maximum(peak, _SMALLEST, out=peak))
    whole = np.rint(scaled, out=scaled).astype(np.int8)
    signs = np.packbits(whole > 0, axis=1)
    return [(row.tobytes(), bits.tobytes()) for row, bits in zip(whole, signs, strict=True)]
