"""The index of passages and vectors, and its health checks."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from satchel.errors import StoreError
from satchel.model.memory import Memory
from satchel.store.contract import Check, Embedded, Embedding
from satchel.store.database import Database, Generation
from satchel.store.rows import memory_from_row
from satchel.text.passages import Part, parts_of

__all__ = [
    "PLACE_BITS",
    "Index",
    "State",
    "adopt",
    "backlog",
    "backlog_size",
    "begin_reembedding",
    "build_passages",
    "check",
    "differing_memories",
    "embed_backlog",
    "embedding",
    "fill",
    "finish_reembedding",
    "has_backlog",
    "passage_number",
    "passages_check",
    "unembedded",
    "vectors_check",
]


PLACE_BITS = 12
PAGE = 1000


def passage_number(memory: int, place: int) -> int:
    return (memory << PLACE_BITS) + place


def _bounds(memory: int) -> dict[str, int]:
    return {"start": passage_number(memory, 0), "stop": passage_number(memory + 1, 0)}


class Index:
    """Updates the index within one write, with vectors that were made before the write began."""

    def __init__(self, db: Database, embedded: Embedded | None = None) -> None:
        self._db = db
        self._current: Generation | None
        if embedded is None:
            self._current = db.vectors.generation()
        else:
            self._current = adopt(db, Embedding(embedded.name, embedded.dimensions))
        self._vectors = embedded.vectors if embedded is not None and self.holds(embedded) else {}
        self._parts = embedded.parts if embedded is not None else {}

    def holds(self, embedded: Embedded) -> bool:
        """Whether these vectors are of the same embedder as the stored ones."""
        return self._current is not None and self._current.embedding == (embedded.name, embedded.dimensions)

    def enter(self, memories: Sequence[tuple[int, Memory]]) -> None:
        """Index new memories, given with their numbers."""
        self._enter([(seq, self._parts.get(memory.id) or parts_of(memory)) for seq, memory in memories])

    def replace(self, seq: int, memory: Memory) -> None:
        """Index a memory again, after its title, text or tags changed."""
        self.remove(seq)
        self._enter([(seq, parts_of(memory))])

    def remake(self, seq: int, memory: Memory) -> None:
        """Index a memory again during a repair, also if there are vectors without passages."""
        for each in self._db.vectors.generations():
            sql = self._db.statement("vectors_of", **each.parts)
            self._db.vectors.delete(each, self._db.execute(sql, _bounds(seq)).fetchall())
        self.remove(seq)
        self._enter([(seq, parts_of(memory))])

    def remove(self, seq: int) -> None:
        """Delete the passages of a memory and their vectors."""
        self._db.log_changes([seq])
        self._db.execute(self._db.statement("delete_passages"), _bounds(seq))
        self._db.vectors.passages_went()
        self._db.execute(self._db.statement("delete_backlog"), {"memory": seq})

    def make_good(self, seq: int) -> bool:
        """Write the missing vectors of a memory, and return whether it has all of them now."""
        row = self._db.execute(self._db.statement("waiting_memory"), {"memory": seq}).fetchone()
        if row is None or self._current is None:
            return False
        if self._current.dimensions:
            # There are none, except during a repair.
            self._db.vectors.delete(self._current, self._passages(seq))
        if not self._embed(seq, parts_of(memory_from_row(row))):
            return False
        self._db.log_changes([seq])
        self._db.execute(self._db.statement("delete_backlog"), {"memory": seq})
        return True

    def _passages(self, seq: int) -> list[tuple[int]]:
        return self._db.execute(self._db.statement("passages_of"), _bounds(seq)).fetchall()

    def _enter(self, made: Sequence[tuple[int, Sequence[Part]]]) -> None:
        self._db.log_changes(seq for seq, _ in made)
        write_passages(self._db, made)
        vectors: list[tuple[int, bytes, bytes]] = []
        waiting: list[dict[str, int]] = []
        for seq, parts in made:
            found = self._vectors_of(seq, parts)
            if found is None:
                waiting.append({"memory": seq})
            else:
                vectors += found
        self._db.executemany(self._db.statement("insert_backlog"), waiting)
        self._write(vectors)

    def _embed(self, seq: int, parts: Sequence[Part]) -> bool:
        """Write all vectors of a memory or none, and return whether nothing is left to embed."""
        vectors = self._vectors_of(seq, parts)
        self._write(vectors or ())
        return vectors is not None

    def _vectors_of(self, seq: int, parts: Sequence[Part]) -> list[tuple[int, bytes, bytes]] | None:
        """Return all vectors of a memory with the numbers of its passages; None if some are missing."""
        if self._current is None or not self._current.dimensions:
            return None if self._current is None else []
        vectors = [found for part in parts if (found := self._vectors.get(part.text)) is not None]
        if len(vectors) < len(parts):
            return None
        return [(passage_number(seq, place), *vector) for place, vector in enumerate(vectors)]

    def _write(self, vectors: Sequence[tuple[int, bytes, bytes]]) -> None:
        if vectors and self._current is not None:
            self._db.vectors.write(self._current, vectors)


def write_passages(db: Database, made: Iterable[tuple[int, Sequence[Part]]]) -> None:
    """Write the passages of memories, given with their numbers."""
    rows = [
        {
            "number": passage_number(seq, place),
            "start": part.start,
            "stop": part.end,
            "flags": part.flags,
            "codes": part.codes,
        }
        for seq, parts in made
        for place, part in enumerate(parts)
    ]
    db.executemany(db.statement("insert_passage"), rows)


def embedding(db: Database) -> Embedding | None:
    """Return the embedder of the stored vectors; None if there are none yet."""
    found = db.vectors.generation()
    return None if found is None else found.embedding


def adopt(db: Database, wanted: Embedding) -> Generation:
    """Record the embedder of a store that has none yet. Returns the embedder that it has now."""
    if (held := db.vectors.generation()) is not None:
        return held
    if not wanted.dimensions:
        db.execute(db.statement("clear_backlog"))
    return db.vectors.create(wanted, state="current")


def build_passages(db: Database) -> None:
    """Make the passages of all memories of an old store, and put the memories into the backlog."""
    last = -1
    sql = db.statement("memories_after")
    while page := db.execute(sql, {"after": last, "limit": PAGE}).fetchall():
        write_passages(db, [(row[-1], parts_of(memory_from_row(row))) for row in page])
        last = page[-1][-1]


def backlog(db: Database, *, limit: int) -> list[tuple[int, Memory]]:
    """Return memories of the backlog with their numbers."""
    rows = db.execute(db.statement("backlog"), {"limit": limit})
    return [(row[-1], memory_from_row(row)) for row in rows]


def backlog_size(db: Database) -> int:
    """Return how many memories wait to be embedded."""
    return int(db.execute(db.statement("count_backlog")).get)


def has_backlog(db: Database) -> bool:
    """Return whether memories wait to be embedded."""
    return db.execute(db.statement("first_of_backlog")).fetchone() is not None


def embed_backlog(db: Database, seqs: Iterable[int], embedded: Embedded) -> int:
    """Write the vectors of memories of the backlog, and return how many have all vectors now."""
    index = Index(db, embedded)
    return sum(index.make_good(seq) for seq in seqs) if index.holds(embedded) else 0


# Embedding again: the new vectors are made beside the current ones and then replace them.
#
# Several processes may do this at once while others write. Under the write lock, the text that was embedded is
# compared with the current text.


def begin_reembedding(db: Database, wanted: Embedding) -> int:
    """Start or continue embedding again, and return how many passages are left to embed."""
    building = db.vectors.generation("building")
    if building is not None and building.embedding != wanted:
        db.vectors.drop(building)
        building = None
    if building is None:
        building = db.vectors.create(wanted, state="building")
    if not building.dimensions:
        return 0
    return int(db.execute(db.statement("count_missing", **building.parts)).get)


def unembedded(db: Database, wanted: Embedding, *, after: int, limit: int) -> list[tuple[int, str]]:
    """Return passages without a vector in the new generation, and the texts to embed."""
    building = _building(db, wanted)
    if building is None or not building.dimensions:
        return []
    sql = db.statement("missing_passages", **building.parts)
    rows: list[Any] = db.execute(sql, {"after": after, "limit": limit}).fetchall()
    return list(_texts(db, [row[0] for row in rows]))


def fill(db: Database, numbers: Sequence[int], embedded: Embedded) -> int:
    """Write new vectors and return how many. Passages that others changed, deleted or embedded are skipped."""
    building = _building(db, Embedding(embedded.name, embedded.dimensions))
    if building is None or not building.dimensions:
        return 0
    sql = db.statement("vectors_of", **building.parts)
    new = [
        (number, *vector)
        for number, text in _texts(db, numbers)
        if (vector := embedded.vectors.get(text))
        and db.execute(sql, {"start": number, "stop": number + 1}).fetchone() is None
    ]
    db.vectors.write(building, new)
    return len(new)


def finish_reembedding(db: Database, wanted: Embedding) -> bool:
    """Replace the old vectors by the new ones. Returns False if some are still missing."""
    building = _building(db, wanted)
    if building is None:
        return True
    if unembedded(db, wanted, after=-1, limit=1):
        return False
    old = db.vectors.generation()
    if old is not None:
        db.vectors.drop(old)
    db.execute(db.statement("make_current"), {"generation": building.number})
    db.execute(db.statement("clear_backlog"))
    # A change of no memory: after a failover that lost it, other vectors may get the same generation.
    db.log_changes([0])
    return True


def _building(db: Database, wanted: Embedding) -> Generation | None:
    """Return the generation being built; None if another process has finished it."""
    building = db.vectors.generation("building")
    if building is not None and building.embedding == wanted:
        return building
    current = db.vectors.generation()
    if building is None and current is not None and current.embedding == wanted:
        return None
    other = building or current
    raise StoreError(
        f"another process has begun to reembed this store with {other.name if other else 'another embedder'}, "
        f"which ended that with {wanted.name}; run only one of them"
    )


def _texts(db: Database, numbers: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Return the texts to embed for those passages that still exist."""
    parts: list[Part] = []
    known = None
    for number in numbers:
        seq, place = number >> PLACE_BITS, number & ((1 << PLACE_BITS) - 1)
        if seq != known:
            row = db.execute(db.statement("memory_by_seq"), {"seq": seq}).fetchone()
            parts, known = (parts_of(memory_from_row(row)) if row else []), seq
        if place < len(parts):
            yield number, parts[place].text


# Health checks of passages and vectors, for both databases.


State = Literal["ok", "warning", "failed"]


def check(name: str, problem: str | None, good: str, *, bad: State = "failed") -> Check:
    return Check(name=name, state=bad if problem else "ok", detail=problem or good)


def differing_memories(db: Database, passage_ends: str) -> list[int]:
    """Return the memories whose passages do not cover their text.

    Only their number and their ends are compared: cutting every text again would take too long.
    """
    return [row[0] for row in db.execute(passage_ends) if not _covers(*row[1:])]


def _covers(text: str, places: int, last: int | None, start: int | None, stop: int | None) -> bool:
    end = len(text.rstrip())
    if not end or last is None:
        return not end and not places
    return (places, start, stop) == (last + 1, len(text) - len(text.lstrip()), end)


def passages_check(total: int, *, differing: int, stray: int = 0) -> Check:
    wrong = []
    if differing:
        wrong.append(f"those of {differing:,} memories differ from the texts")
    if stray:
        wrong.append(f"{stray:,} belong to no memory")
    problem = f"{'; '.join(wrong)}; `satchel doctor --fix` makes them anew" if wrong else None
    return check("passages", problem, f"{total:,} in step")


def vectors_check(
    current: Generation | None,
    building: Generation | None,
    *,
    broken: list[Generation],
    overlooked: int,
    stray: int,
    waiting: int,
    differing: int = 0,
) -> Check:
    wrong = []
    if broken:
        wrong.append(f"those by {' and '.join(each.name for each in broken)} cannot be read")
    if overlooked:
        wrong.append(f"{overlooked:,} memories lack theirs")
    if stray:
        wrong.append(f"{stray:,} belong to nothing")
    if differing:
        wrong.append(f"their codes differ from them in {differing:,} places")
    if wrong:
        problem = f"{'; '.join(wrong)}; `satchel doctor --fix` takes out what is wrong"
        return check("vectors", problem, "")
    open_ends = []
    if waiting:
        command = "satchel reembed"
        if current is not None and current.name.startswith("openai:"):
            command += f" --embedder {current.name}"
        open_ends.append(f"{waiting:,} memories wait for theirs; `{command}` makes them")
    if building is not None:
        open_ends.append(f"`satchel reembed --embedder {building.name}` was begun and is not finished")
    good = "none yet" if current is None else f"by {current.name}"
    return check("vectors", "; ".join(open_ends) or None, good, bad="warning")
