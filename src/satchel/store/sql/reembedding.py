"""Vectors of another embedder, made beside the current ones until they can take their place.

Several processes may do it at once, and others write meanwhile: what is embedded is compared, under the
write lock, with what stands there now.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from satchel.errors import StoreError
from satchel.store.contract import Embedded, Embedding
from satchel.store.sql.database import Database
from satchel.store.sql.index import PLACE_BITS
from satchel.store.sql.rows import memory_from_row
from satchel.store.sql.vectors import Generation
from satchel.text.passages import Part, parts_of

__all__ = ["begin", "fill", "finish", "unembedded"]


def begin(db: Database, wanted: Embedding) -> int:
    """Start, or go on with what was begun; how many passages there are to embed."""
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
    """Passages that the generation being built does not have, and what is to be embedded of them."""
    building = _building(db, wanted)
    if building is None or not building.dimensions:
        return []
    sql = db.statement("missing_passages", **building.parts)
    rows: list[Any] = db.execute(sql, (after, limit)).fetchall()
    return list(_texts(db, [row[0] for row in rows]))


def fill(db: Database, numbers: Sequence[int], embedded: Embedded) -> int:
    """Write new vectors; how many. What was changed, removed or embedded by others meanwhile is left out."""
    building = _building(db, Embedding(embedded.name, embedded.dimensions))
    if building is None or not building.dimensions:
        return 0
    sql = db.statement("vectors_of", **building.parts)
    new = [
        (number, *vector)
        for number, text in _texts(db, numbers)
        if (vector := embedded.vectors.get(text)) and db.execute(sql, (number, number + 1)).fetchone() is None
    ]
    db.vectors.write(building, new)
    return len(new)


def finish(db: Database, wanted: Embedding) -> bool:
    """Let the new vectors take the old ones' place; False if some are still missing."""
    building = _building(db, wanted)
    if building is None:
        return True
    if unembedded(db, wanted, after=-1, limit=1):
        return False
    old = db.vectors.generation()
    if old is not None:
        db.vectors.drop(old)
    db.execute(db.statement("make_current"), (building.number,))
    db.execute(db.statement("clear_backlog"))
    return True


def _building(db: Database, wanted: Embedding) -> Generation | None:
    """What is being built; None if another process has finished it."""
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
    """What is to be embedded of those passages that are still there."""
    parts: list[Part] = []
    known = None
    for number in numbers:
        seq, place = number >> PLACE_BITS, number & ((1 << PLACE_BITS) - 1)
        if seq != known:
            row = db.execute(db.statement("memory_by_seq"), (seq,)).fetchone()
            parts, known = (parts_of(memory_from_row(row)) if row else []), seq
        if place < len(parts):
            yield number, parts[place].text
