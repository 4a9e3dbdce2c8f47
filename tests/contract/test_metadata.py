"""Metadata: a JSON object of the caller, stored with a memory and filtered by equality, the same in every store."""

from typing import Any

import msgspec
import pytest

import satchel
from satchel import Draft, Satchel

VALUES: tuple[Any, ...] = (
    1, 2, 0, -1, 1.5, 1e300, True, False, None, "1", "", "true", "null", "größe", 'quo"te', "back\\slash",
    "line\nbreak", "nul \x00 and \ufdd0", [], [1], [1, 2], ["1"], {}, {"a": 1}, {"a": {"b": [1, None]}},
    2**63, -(2**63),
)  # fmt: skip


def found(bag: Satchel, metadata: dict[str, Any], **options: Any) -> set[str]:
    return {memory.text for memory in bag.recent(limit=100, metadata=metadata, **options)}


def test_metadata_comes_back_as_it_was_given(bag: Satchel):
    given = {str(number): value for number, value in enumerate(VALUES)} | {
        'key "with" \x00 signs': {"z": 1, "a": 2}
    }
    memory = bag.add("one", metadata=given)
    assert memory.metadata == given
    assert bag.get(memory.id).metadata == given
    assert list(bag.get(memory.id).metadata) == sorted(given)
    assert bag.add("two").metadata == {}


def test_a_value_is_found_by_itself_and_by_no_other(bag: Satchel):
    bag.add_many(Draft(f"{place}", metadata={"key": value, "other": 7}) for place, value in enumerate(VALUES))
    for place, value in enumerate(VALUES):
        assert found(bag, {"key": value}) == {f"{place}"}, value
        assert found(bag, {"other": value}) == set(), value
    assert found(bag, {"key": 1.0}) == found(bag, {"key": 1})
    assert found(bag, {"key": (1, 2)}) == found(bag, {"key": [1, 2]})
    assert len(found(bag, {"other": 7})) == len(VALUES)


def test_all_keys_must_match_and_the_order_of_keys_does_not_count(bag: Satchel):
    bag.add("a", metadata={"pr": 12, "repo": "harbor"})
    bag.add("b", metadata={"pr": 12, "repo": "thesis", "by": {"name": "Ana", "id": 1}})
    bag.add("c")
    assert found(bag, {"pr": 12}) == {"a", "b"}
    assert found(bag, {"repo": "harbor", "pr": 12}) == {"a"}
    assert found(bag, {"pr": 12, "repo": "other"}) == set()
    assert found(bag, {"by": {"id": 1, "name": "Ana"}}) == {"b"}
    assert found(bag, {"by": {"id": 1}}) == set()
    assert found(bag, {"id": 1}) == found(bag, {"name": "Ana"}) == set()
    assert found(bag, {}) == {"a", "b", "c"}


def test_a_value_that_contains_a_line_of_json_is_not_taken_for_it(bag: Satchel):
    bag.add("a", metadata={"note": '\n"pr":12\n'})
    bag.add("b", metadata={"note": {"pr": 12}})
    assert found(bag, {"pr": 12}) == set()


def test_every_read_takes_metadata(bag: Satchel):
    bag.add_many(Draft(f"the harbor opens at {hour}", metadata={"hour": hour}) for hour in range(5))
    assert [hit.memory.metadata for hit in bag.search("harbor", metadata={"hour": 3})] == [{"hour": 3}]
    assert bag.context("harbor", metadata={"hour": 3}).facts_included == 1
    assert bag.context_pack("harbor", metadata={"hour": 3}).memories[0].metadata == {"hour": 3}
    assert len(bag.search("submarines", metadata={"hour": 3})) == 1
    lines = list(bag.export(metadata={"hour": 3}))
    assert len(lines) == 2
    assert b'"metadata":{"hour":3}' in lines[1]
    assert bag.forget(metadata={"hour": 3}).count == 1
    assert bag.forget(metadata={"hour": 3}, purge=True).count == 1
    assert bag.forget(metadata={}).count == 0
    assert len(bag.recent()) == 4


def test_an_update_replaces_metadata_as_a_whole(bag: Satchel):
    memory = bag.add("one", metadata={"pr": 12, "repo": "harbor"})
    assert bag.update(memory.id, importance=0.9).metadata == {"pr": 12, "repo": "harbor"}
    assert bag.update(memory.id, metadata={"pr": 13}).metadata == {"pr": 13}
    assert bag.history(memory.id)[-1].changes == {"metadata": [{"pr": 12, "repo": "harbor"}, {"pr": 13}]}
    assert bag.update(memory.id, metadata={"pr": 13.0}).revision == 3
    assert bag.update(memory.id, metadata=None).metadata == bag.get(memory.id).metadata == {}
    assert found(bag, {"pr": 13}) == set()


def test_the_past_had_other_metadata(bag: Satchel):
    memory = bag.add("the harbor opens", metadata={"pr": 12}, at="2024-01-01")
    before = bag.history(memory.id)[0].at
    bag.update(memory.id, metadata={"pr": 13})
    assert bag.get(memory.id, as_of=before).metadata == {"pr": 12}
    assert found(bag, {"pr": 12}, as_of=before) == {"the harbor opens"}
    assert found(bag, {"pr": 13}, as_of=before) == found(bag, {"pr": 12}) == set()


def test_the_same_ref_replaces_metadata_only_where_it_is_given(bag: Satchel):
    bag.add("one", ref="r", metadata={"pr": 12})
    assert bag.add("two", ref="r").metadata == {"pr": 12}
    assert bag.add("three", ref="r", metadata={"repo": "harbor"}).metadata == {"repo": "harbor"}


def test_the_same_text_joins_metadata_and_the_newer_value_stays(bag: Satchel):
    bag.add("tabs", metadata={"pr": 12, "repo": "harbor"})
    again = bag.add("tabs", metadata={"pr": 13, "by": "Ana"})
    assert again.confirmations == 1
    assert again.metadata == {"pr": 13, "repo": "harbor", "by": "Ana"}
    assert bag.history(again.id)[-1].changes["metadata"][0] == {"pr": 12, "repo": "harbor"}


def test_metadata_travels_between_stores(bag: Satchel):
    memory = bag.add("the harbor opens", metadata={"pr": 12, "tags": ["a", "größe"]})
    bag.update(memory.id, metadata={"pr": 13})
    with satchel.open(":memory:") as other:
        assert other.import_(bag.export()).problems == ()
        assert other.get(memory.id).metadata == {"pr": 13}
        assert other.history(memory.id) == bag.history(memory.id)
    with satchel.open(":memory:") as other:
        pack = bag.context_pack("harbor", format="json")
        assert other.import_(pack.text.encode().splitlines(keepends=True)).added == 1
        assert other.get(memory.id).metadata == {"pr": 13}
    with satchel.open(":memory:") as other:
        other.import_([b'{"text": "one", "metadata": {"pr": 1}}'])
        assert found(other, {"pr": 1}) == {"one"}


def test_secrets_in_metadata_are_masked(bag: Satchel):
    token = "ghp_" + "a1B2" * 9
    memory = bag.add(
        "one", metadata={"note": f"use {token}", "db": {"password": "hunter2secret"}, "keys": [token], "pr": 12}
    )
    kept = bag.get(memory.id)
    assert kept == msgspec.structs.replace(memory, access_count=1, accessed_at=kept.accessed_at)
    assert kept.metadata == {
        "db": {"password": "[masked:password]"},
        "keys": ["[masked:github-token]"],
        "note": "use [masked:github-token]",
        "pr": 12,
    }
    assert kept.masked == ("password", "github-token", "github-token")
    assert bag.update(memory.id, title="One").masked == kept.masked
    assert bag.update(memory.id, metadata={"note": token}).masked == ("github-token",)
    with pytest.raises(satchel.InputError, match=r"a key of the metadata looks like a secret \(github-token\)"):
        bag.add("two", metadata={token: 1})
    assert token.encode() not in b"".join(bag.export())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([1], "metadata must be an object such as {'pr': 12}, not list"),
        ("{}", "metadata must be an object such as {'pr': 12}, not str"),
        ({0: 2}, "metadata has the key 0; keys must be strings"),
        ({"a": {2.5: 1}}, "metadata['a'] has the key 2.5; keys must be strings"),
        ({"a": float("nan")}, "metadata['a'] is nan, which JSON does not have"),
        ({"a": [float("-inf")]}, "metadata['a'] is -inf, which JSON does not have"),
        ({"a": {"b": {1, 2}}}, "metadata['a']['b'] is of type set, which JSON does not have; convert it first"),
        ({"a": b"x"}, "metadata['a'] is of type bytes, which JSON does not have; convert it first"),
        ({"a": 2**64}, "metadata['a'] is a number of more than 64 bits; give it as a string"),
        ({"a": "x" * 10_000}, "metadata has 10,008 bytes as JSON; the most is 10,000"),
    ],
    ids=str,
)
def test_bad_metadata_is_refused_in_one_line_and_changes_nothing(bag: Satchel, given: Any, said: str):
    memory = bag.add("kept", metadata={"pr": 12})
    for act in (
        lambda: bag.add("new", metadata=given),
        lambda: Draft("new", metadata=given),
        lambda: bag.update(memory.id, metadata=given),
        lambda: bag.search("kept", metadata=given),
        lambda: bag.forget(metadata=given),
    ):
        with pytest.raises(satchel.InputError) as caught:
            act()
        assert str(caught.value) == said
    assert found(bag, {"pr": 12}) == {"kept"}
    assert len(bag.recent()) == 1


def test_metadata_that_is_nested_too_deeply_is_refused(bag: Satchel):
    deep: dict[str, Any] = {}
    for _ in range(60):
        deep = {"a": deep}
    with pytest.raises(satchel.InputError, match="metadata is nested more than 50 levels deep"):
        bag.add("new", metadata=deep)
    endless: dict[str, Any] = {}
    endless["a"] = endless
    with pytest.raises(satchel.InputError, match="nested"):
        bag.add("new", metadata=endless)


def test_memories_with_metadata_can_be_put_into_a_set(bag: Satchel):
    memory = bag.add("one", metadata={"pr": 12})
    assert len({memory, bag.add("two")}) == 2
    assert memory in {memory}
