"""How it is told whether passages and vectors are in step with the memories, in whichever database they are."""

from typing import Literal

from satchel.store.contract import Check
from satchel.store.sql.database import Database
from satchel.store.sql.vectors import Generation

__all__ = ["State", "check", "differing_memories", "passages_check", "vectors_check"]

State = Literal["ok", "warning", "failed"]


def check(name: str, problem: str | None, good: str, *, bad: State = "failed") -> Check:
    return Check(name=name, state=bad if problem else "ok", detail=problem or good)


def differing_memories(db: Database, passage_ends: str) -> list[int]:
    """Those whose passages do not reach from one end of their text to the other.

    By count and ends: to cut every text again would take as long as to store it.
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
) -> Check:
    wrong = []
    if broken:
        wrong.append(f"those by {' and '.join(each.name for each in broken)} cannot be read")
    if overlooked:
        wrong.append(f"{overlooked:,} memories lack theirs")
    if stray:
        wrong.append(f"{stray:,} belong to nothing")
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
