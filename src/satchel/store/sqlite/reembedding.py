"""Vectors of another embedder, made beside the current ones until they can take their place.

Several processes may do it at once, and others write meanwhile: what is embedded is compared, under the
write lock, with what stands there now.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import apsw

from satchel.errors import StoreError
from satchel.parts import Part, parts_of
from satchel.store.contract import Embedded, Embedding
from satchel.store.sqlite.index import PLACE_BITS
from satchel.store.sqlite.rows import memory_from_row
from satchel.store.sqlite.statements import statement
from satchel.store.sqlite.vectors import (
    Generation,
    create_generation,
    drop_generation,
    generation,
    load_vectors,
    write_vector,
)

__all__ = ["begin", "fill", "finish", "unembedded"]


def begin(db: apsw.Connection, wanted: Embedding) -> int:
    """Start, or go on with what was begun; how many passages there are to embed."""
    building = generation(db, "building")
    if building is not None and building.embedding != wanted:
        drop_generation(db, building)
        building = None
    if building is None:
        building = create_generation(db, wanted, state="building")
    if not building.dimensions:
        return 0
    return int(db.execute(statement("count_missing", vectors=f"vector_{building.number}")).get)


def unembedded(db: apsw.Connection, wanted: Embedding, *, after: int, limit: int) -> list[tuple[int, str]]:
    """Passages that the generation being built does not have, and what is to be embedded of them."""
    building = _building(db, wanted)
    if building is None or not building.dimensions:
        return []
    sql = statement("missing_passages", vectors=f"vector_{building.number}")
    rows: list[Any] = db.execute(sql, (after, limit)).fetchall()
    return list(_texts(db, [row[0] for row in rows]))


def fill(db: apsw.Connection, numbers: Sequence[int], embedded: Embedded) -> int:
    """Write new vectors; how many. What was changed, removed or embedded by others meanwhile is left out."""
    building = _building(db, Embedding(embedded.name, embedded.dimensions))
    if building is None or not building.dimensions:
        return 0
    load_vectors(db)
    done = 0
    for number, text in _texts(db, numbers):
        vector = embedded.vectors.get(text)
        there = db.execute(f"SELECT 1 FROM vector_{building.number} WHERE passage = ?", (number,)).fetchone()
        if vector is not None and there is None:
            write_vector(db, building, number, *vector)
            done += 1
    return done


def finish(db: apsw.Connection, wanted: Embedding) -> bool:
    """Let the new vectors take the old ones' place; False if some are still missing."""
    building = _building(db, wanted)
    if building is None:
        return True
    if unembedded(db, wanted, after=-1, limit=1):
        return False
    old = generation(db)
    if old is not None:
        drop_generation(db, old)
    db.execute(statement("make_current"), (building.number,))
    db.execute(statement("clear_backlog"))
    return True


def _building(db: apsw.Connection, wanted: Embedding) -> Generation | None:
    """What is being built; None if another process has finished it."""
    building = generation(db, "building")
    if building is not None and building.embedding == wanted:
        return building
    current = generation(db)
    if building is None and current is not None and current.embedding == wanted:
        return None
    other = building or current
    raise StoreError(
        f"another process has begun to reembed this store with {other.name if other else 'another embedder'}, "
        f"which ended that with {wanted.name}; run only one of them"
    )


def _texts(db: apsw.Connection, numbers: Sequence[int]) -> Iterator[tuple[int, str]]:
    """What is to be embedded of those passages that are still there."""
    parts: list[Part] = []
    known = None
    for number in numbers:
        seq, place = number >> PLACE_BITS, number & ((1 << PLACE_BITS) - 1)
        if seq != known:
            row = db.execute(statement("memory_by_seq"), (seq,)).fetchone()
            parts, known = (parts_of(memory_from_row(row)) if row else []), seq
        if place < len(parts):
            yield number, parts[place].text
