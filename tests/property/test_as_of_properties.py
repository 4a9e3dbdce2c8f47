"""For any history, `as_of` gives what a plain model gives that recorded every state.

Few runs by default, the same each time; twenty times as many others by `SATCHEL_FUZZ=20`.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import satchel
from conftest import ON_A_SERVER
from satchel import Memory, Relation, Satchel
from satchel.errors import SatchelError
from satchel.model.filters import Filter
from satchel.recall import ranking

pytestmark = pytest.mark.slow

FUZZ = int(os.environ.get("SATCHEL_FUZZ", "1"))
RUNS = 40 * FUZZ
START = datetime(2026, 1, 1, tzinfo=UTC)
# No two of them are taken for one another.
WORDS = ["harbour", "violin", "telescope", "bakery", "cat", "ὄρος"]

hours = st.integers(0, 12)
numbers = st.integers(0, 9)
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
maybe_hours = st.none() | hours
fields = st.fixed_dictionaries(
    {},
    optional={
        "title": st.none() | texts,
        "kind": st.sampled_from(["fact", "fix"]),
        "tier": st.sampled_from(["knowledge", "conversation"]),
        "tags": st.lists(st.sampled_from(["Red", "blue"]), max_size=2),
        "status": st.sampled_from(["active", "active", "archived", "pending"]),
        "importance": st.sampled_from([0.2, 0.8]),
        "metadata": st.dictionaries(st.sampled_from("ab"), st.sampled_from([1, True])),
        "pinned": st.booleans(),
        "speaker": st.none() | st.sampled_from(["Ana", "Bo"]),
        "source": st.none() | st.just("a.md"),
        "invalid_at": maybe_hours,
        "valid_from": maybe_hours,
    },
)
adding = st.fixed_dictionaries(
    {"text": texts},
    optional={"topic_key": st.sampled_from(["t", "u"]), "session": st.sampled_from(["s", "r"]), "at": hours},
)
steps = st.one_of(
    st.tuples(st.just("add"), adding, fields),
    st.tuples(st.just("update"), numbers, fields, st.none() | texts, maybe_hours),
    st.tuples(st.just("forget"), numbers, st.integers(0, 4).map(lambda odd: odd == 0)),
    st.tuples(
        st.just("relate"),
        numbers,
        numbers,
        st.sampled_from(["related", "supersedes", "contradicts"]),
        st.sampled_from([0.3, 1.0]),
    ),
    st.tuples(st.just("unforget"), numbers),
    st.tuples(st.just("unrelate"), numbers),
)
filters = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from(["fact", "fix", "observation"]),
        "tier": st.just("conversation"),
        "tags": st.sampled_from(["red", "BLUE"]),
        "status": st.sampled_from(["archived", "superseded"]),
        "ended": st.booleans(),
        "metadata": st.sampled_from([{"a": 1}, {"a": True}, {"b": 1}]),
    },
)
moments = st.integers(0, 52).map(lambda quarter: START + timedelta(minutes=15 * quarter))


def as_times(values: dict[str, Any]) -> dict[str, Any]:
    """Hours of the day as times."""
    return {
        name: START + timedelta(hours=value)
        if name in ("at", "valid_from", "invalid_at") and value is not None
        else value
        for name, value in values.items()
    }


class Model:
    """Every state that the memories and relations of a view ever had, with its time."""

    def __init__(self, bag: Satchel) -> None:
        self._bag = bag
        self._everything = Filter(scope=bag.scope, statuses=())
        self.memories: dict[str, list[tuple[datetime, Memory]]] = {}
        self.relations: list[tuple[datetime, dict[str, list[Relation]]]] = []

    @property
    def ids(self) -> list[str]:
        return list(self.memories)

    def write_down(self, now: datetime) -> None:
        found = {memory.id: _unused(memory) for memory in self._bag._store.select(self._everything, limit=1000)}
        # What was purged is gone, with all that it was.
        self.memories = {each: states for each, states in self.memories.items() if each in found}
        for identifier in sorted(found, key=lambda each: found[each].created_at):
            states = self.memories.setdefault(identifier, [])
            if not states or states[-1][1] != found[identifier]:
                states.append((now, found[identifier]))
        related = {each: self._bag.relations(each) for each in found}
        self.relations.append((now, related))

    def at(self, moment: datetime) -> list[Memory]:
        """What was known then, newest first."""
        states = [self._state(versions, moment) for versions in self.memories.values()]
        known = [memory for memory in states if memory.at <= moment]
        return sorted(known, key=lambda memory: (memory.at, memory.id), reverse=True)

    def _state(self, versions: list[tuple[datetime, Memory]], moment: datetime) -> Memory:
        so_far = [memory for made, memory in versions if made <= moment]
        if so_far:
            return so_far[-1]
        first, last = versions[0][1], versions[-1][1]
        return msgspec.structs.replace(first, at=last.at, valid_from=last.valid_from, invalid_at=last.invalid_at)

    def related(self, moment: datetime, identifier: str) -> list[Relation]:
        so_far = [related for made, related in self.relations if made <= moment]
        found = so_far[-1].get(identifier, []) if so_far else []
        return [each for each in found if {each.source, each.target} <= self.memories.keys()]


def _unused(memory: Memory) -> Memory:
    return msgspec.structs.replace(memory, access_count=0, accessed_at=None)


def _meant(memory: Memory, moment: datetime, chosen: dict[str, Any]) -> bool:
    status = chosen.get("status", "active")
    held = (memory.valid_from is None or memory.valid_from <= moment) and (
        memory.invalid_at is None or memory.invalid_at > moment
    )
    return (
        memory.status == status
        and (held or status != "active" or chosen.get("ended", False))
        and memory.kind == chosen.get("kind", memory.kind)
        and memory.tier == chosen.get("tier", memory.tier)
        and all(repr(memory.metadata.get(key)) == repr(value) for key, value in chosen.get("metadata", {}).items())
        and ("tags" not in chosen or chosen["tags"].lower() in [tag.lower() for tag in memory.tags])
    )


def do(bag: Satchel, model: Model, step: tuple[Any, ...]) -> None:
    """One step; what is refused changes nothing."""
    name, *given = step
    ids = model.ids
    if name == "add":
        first, more = given
        bag.add(**as_times(first), **as_times(more))
    elif ids and name == "update":
        number, changes, text, at = given
        extra = {key: value for key, value in (("text", text), ("at", at)) if value is not None}
        bag.update(ids[number % len(ids)], **as_times(changes | extra))
    elif ids and name == "forget":
        number, purge = given
        bag.forget(ids[number % len(ids)], purge=purge)
    elif ids and name == "relate":
        one, other, kind, strength = given
        bag.relate(ids[one % len(ids)], ids[other % len(ids)], kind, strength=strength)
    elif ids and name == "unforget":
        bag.unforget(ids[given[0] % len(ids)])
    elif ids and name == "unrelate":
        held = [each for identifier in ids for each in bag.relations(identifier)]
        if held:
            one = held[given[0] % len(held)]
            bag.unrelate(one.source, one.target, one.kind)


@pytest.fixture(params=["in memory", ON_A_SERVER])
def views(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Satchel]]:
    """Gives an empty view each time, of a store whose uses do not count."""
    location = ":memory:" if request.param == "in memory" else request.getfixturevalue("pg_rows_url")
    orgs = count()
    with satchel.open(location, embedder="none") as bag:
        monkeypatch.setattr(type(bag._store), "touch", lambda *_: None)
        yield lambda: bag.scoped(org=f"org {next(orgs)}")


SETTINGS = settings(
    max_examples=RUNS, derandomize=FUZZ == 1, deadline=None, suppress_health_check=list(HealthCheck)
)


@given(
    happened=st.lists(steps, min_size=1, max_size=12),
    asked=st.lists(moments, min_size=1, max_size=4),
    chosen=filters,
)
@SETTINGS
def test_as_of_equals_a_replay_of_the_history(clock, views, happened, asked, chosen):
    bag = views()
    model = Model(bag)
    for number, step in enumerate(happened, start=1):
        clock[0] = START + timedelta(hours=number)
        with contextlib.suppress(SatchelError):
            do(bag, model, step)
        model.write_down(clock[0])
    clock[0] = START + timedelta(days=2)
    for moment in asked:
        known = model.at(moment)
        meant = [memory for memory in known if _meant(memory, moment, chosen)]
        found = bag.recent(limit=1000, as_of=moment, **chosen)
        assert [_unused(memory) for memory in found] == meant
        for memory in known:
            assert _unused(bag.get(memory.id, as_of=moment)) == memory
            assert bag.relations(memory.id, as_of=moment) == model.related(moment, memory.id)
            around = [each for each in known if _meant(each, moment, {}) and _within(each, memory)]
            line = bag.timeline(memory.id, before=100, after=100, as_of=moment)
            told = [*line.before, *line.after]
            assert [_unused(each) for each in told] == [each for each in around[::-1] if each.id != memory.id]


def _within(memory: Memory, focus: Memory) -> bool:
    return focus.scope.session is None or focus.scope.session == memory.scope.session


@pytest.mark.parametrize("small", [1000, 0], ids=["whole", "by index"])
@given(
    happened=st.lists(steps, min_size=1, max_size=12),
    asked=st.lists(st.tuples(numbers, st.sampled_from(WORDS)), min_size=1, max_size=3),
    chosen=filters,
)
@SETTINGS
def test_a_search_as_of_then_finds_what_it_found_then(clock, views, small, happened, asked, chosen):
    """What is entered with an earlier time would be found as of then, though it was not there yet."""
    candidates_small, ranking.SMALL = ranking.SMALL, small
    try:
        bag = views()
        model = Model(bag)
        found = {}
        for number, step in enumerate(happened):
            clock[0] = START + timedelta(hours=number)
            with contextlib.suppress(SatchelError):
                do(bag, model, _at_its_own_time(step))
            model.write_down(clock[0])
            for when, word in asked:
                if when % len(happened) == number:
                    found[clock[0], word] = _hits(bag, word, chosen, None), set(model.ids)
        left = set(model.ids)
        clock[0] = START + timedelta(days=2)
        for (moment, word), (before, there) in found.items():
            after = _hits(bag, word, chosen, moment)
            if not there <= left:
                # What was purged since is gone, and with it all that it counted for.
                assert after.keys() <= there & left
                assert all(after[each][0] == before[each][0] for each in after.keys() & before.keys())
            elif small:
                assert after == before
            else:
                # The words of a large scope are counted as they are now, which moves scores.
                assert after.keys() == before.keys()
    finally:
        ranking.SMALL = candidates_small


def _at_its_own_time(step: tuple[Any, ...]) -> tuple[Any, ...]:
    if step[0] == "add":
        return ("add", {name: value for name, value in step[1].items() if name != "at"}, step[2])
    return (*step[:4], None) if step[0] == "update" else step


def _hits(bag: Satchel, word: str, chosen: dict[str, Any], moment: datetime | None) -> dict[str, Any]:
    hits = bag.search(word, limit=100, as_of=moment, **chosen)
    return {hit.memory.id: (_unused(hit.memory), hit.score) for hit in hits}
