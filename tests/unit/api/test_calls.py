"""Calls that people try first: no location, a memory in the place of its id, one tag, a number as a budget."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import satchel


@pytest.fixture
def bag() -> Iterator[satchel.Satchel]:
    with satchel.open(":memory:", embedder="none") as opened:
        yield opened


def test_open_without_a_location_opens_the_store_of_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SATCHEL_DB", str(tmp_path / "named.db"))
    with satchel.open(embedder="none") as bag:
        bag.add("a note")
    assert (tmp_path / "named.db").exists()
    monkeypatch.delenv("SATCHEL_DB")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    file = tmp_path / "share" / "satchel" / "satchel.db"
    with pytest.raises(satchel.InputError, match="there is no store at"):
        satchel.open(create=False)
    assert not file.parent.exists()

    async def work() -> None:
        async with satchel.aopen(embedder="none") as bag:
            await bag.add("a note")

    asyncio.run(work())
    assert file.exists()
    assert file.parent.stat().st_mode & 0o077 == 0


def test_an_empty_location_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SATCHEL_DB", str(tmp_path / "named.db"))
    with pytest.raises(satchel.InputError):
        satchel.open("")
    assert not (tmp_path / "named.db").exists()


def test_a_memory_or_a_hit_names_itself(bag: satchel.Satchel):
    first, second = bag.add("Quinces ripen in October."), bag.add("Apples ripen in August.")
    (hit,) = bag.search("quinces")
    for named in (first.id, first.id[:20], bag.short_ids([first])[0], first, hit):
        assert bag.get(named).id == first.id
        assert bag.timeline(named).focus.id == first.id
        assert bag.history(named)[0].memory == first.id
        assert bag.similar(named) == []
        assert bag.update(named, title="Quinces").id == first.id
        assert bag.relate(named, second).source == first.id
        assert len(bag.relations(named)) == 1
        assert bag.unrelate(named, second) == 1
        assert bag.forget(named).count == 1
        assert bag.unforget(named) == 1
    assert bag.forget([first, hit, second.id]).count == 2
    assert bag.unforget([first, second]) == 2
    assert bag.short_ids([first, hit]) == bag.short_ids([first.id] * 2)


def test_a_memory_that_is_not_here_is_named_by_its_id(bag: satchel.Satchel):
    gone = bag.add("for a moment")
    bag.forget(gone, purge=True)
    with pytest.raises(satchel.UnknownIdError, match=gone.id):
        bag.get(gone)
    for nothing in (None, 7, {"id": gone.id}):
        with pytest.raises(satchel.InputError):
            bag.get(nothing)


def test_one_tag_is_given_as_a_string(bag: satchel.Satchel):
    memory = bag.add("We rotate JWTs every hour.", tags="auth")
    assert memory.tags == satchel.Draft("x", tags="auth").tags == ("auth",)
    assert bag.update(memory, tags="jwt").tags == ("jwt",)
    assert bag.search("rotate", tags="jwt")[0].id == memory.id


def test_a_number_is_the_total_of_a_session_budget(bag: satchel.Satchel):
    assert bag.session("work", budget=1_000).budget == satchel.Budget(total=1_000)
    assert bag.session("work").budget.total == 1_000
    for wrong, complaint in (
        ("1000", "budget must be a number of tokens or a satchel.Budget, not str"),
        (True, "not bool"),
        (1.5, "not float"),
        (0, "total is 0"),
        (-5, "-5"),
    ):
        with pytest.raises(satchel.InputError, match=complaint):
            bag.session("other", budget=wrong)
    assert [state.session for state in bag.sessions()] == ["work"]


def test_a_session_names_a_parameter_that_it_does_not_have(bag: satchel.Satchel):
    session = bag.session("work")
    with pytest.raises(satchel.ParameterError, match=r"record\(\) has no parameter 'pin'; did you mean pinned\?"):
        session.record("user", "x", pin=True)
    with pytest.raises(
        satchel.ParameterError, match=r"result\(\) has no parameter 'tokens'; did you mean max_tokens"
    ):
        session.result("tool", "x", tokens=5)
    with pytest.raises(satchel.ParameterError, match=r"open\(\) has no parameter 'path'; did you mean location\?"):
        satchel.open(path="x.db")


def test_both_ways_to_open_a_store_asynchronously_close_it(tmp_path: Path):
    async def work() -> list[int]:
        async with satchel.aopen(tmp_path / "a.db", embedder="none") as bag:
            await bag.add("one")
            assert bag.scope.project is None
            assert repr(bag).startswith("<AsyncSatchel ")
        again = await satchel.aopen(tmp_path / "a.db")
        await again.scoped(project="two").add("two")
        counts = [(await again.stats()).memories]
        await again.close()
        async with await satchel.aopen(tmp_path / "a.db") as bag:
            session = await bag.session("work", budget=1_000)
            await session.record("user", "three", remember=True)
            counts.append((await bag.stats()).memories)
        return counts

    assert asyncio.run(work()) == [2, 3]


def test_an_async_call_names_a_parameter_that_it_does_not_have(tmp_path: Path):
    async def work() -> None:
        async with satchel.aopen(tmp_path / "a.db", embedder="none") as bag:
            with pytest.raises(
                satchel.ParameterError, match=r"search\(\) has no parameter 'k'; did you mean limit"
            ):
                await bag.search("x", k=3)
            with pytest.raises(satchel.ParameterError, match=r"scoped\(\) has no parameter 'projct'"):
                bag.scoped(projct="x")

    asyncio.run(work())


def test_short_ids_are_made_from_full_ids_only():
    with satchel.open(":memory:", embedder="none") as bag:
        memory = bag.add("Keys rotate every hour.")
        (short,) = bag.short_ids([memory.id])
        assert bag.get(short).id == memory.id
        for wrong in ("abcd", short, 5):
            with pytest.raises(satchel.InputError, match="id"):
                bag.short_ids([wrong])
