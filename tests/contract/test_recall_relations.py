"""Relations in recall: related memories are found too, contradicted ones rank lower, names connect memories."""

import itertools

import pytest

import satchel
from satchel import Draft, Satchel

pytestmark = pytest.mark.usefixtures("all_matches")

DAY = "2024-03-01"
# The same text of three speakers, so that they are three memories that differ in nothing that ranks them.
APPLES = [Draft("apple", at=DAY, speaker=f"speaker {number}") for number in range(3)]


def chain(bag: Satchel, *, strength: float = 1.0) -> list[satchel.Memory]:
    """The first is about an apple, each is related to the next, none shares a word with another."""
    found = bag.add_many([Draft(text, at=DAY) for text in ("apple", "brick", "cloud", "drum")])
    for one, other in itertools.pairwise(found):
        bag.relate(one.id, other.id, strength=strength)
    return found


def scores(hits) -> dict[str, float]:
    return {hit.memory.text: hit.score for hit in hits}


def test_relations_bring_what_is_at_most_two_away_the_nearer_the_higher(words: Satchel):
    chain(words)
    found = scores(words.search("apple"))
    assert list(found) == ["apple", "brick", "cloud"]
    assert found["apple"] > found["brick"] > found["cloud"]


def test_a_relation_leads_both_ways(words: Satchel):
    chain(words)
    assert list(scores(words.search("drum"))) == ["drum", "cloud", "brick"]


def test_a_stronger_relation_counts_more_and_a_faint_one_not_at_all(words: Satchel):
    apple, brick, cloud, drum = words.add_many(
        [Draft("apple", at=DAY), Draft("brick", at=DAY), Draft("cloud", at=DAY), Draft("drum", at=DAY)]
    )
    words.relate(apple.id, brick.id, strength=0.4)
    words.relate(apple.id, cloud.id, strength=0.9)
    words.relate(apple.id, drum.id, strength=0.05)
    found = scores(words.search("apple"))
    assert list(found) == ["apple", "cloud", "brick"]
    assert found["cloud"] > found["brick"]


def test_of_two_ways_to_a_memory_the_stronger_counts(words: Satchel):
    apple, brick, cloud = words.add_many([Draft("apple", at=DAY), Draft("brick", at=DAY), Draft("cloud", at=DAY)])
    words.relate(apple.id, brick.id, "related", strength=0.3)
    words.relate(apple.id, brick.id, "depends_on", strength=0.9)
    words.relate(apple.id, cloud.id, "depends_on", strength=0.9)
    found = scores(words.search("apple"))
    assert found["brick"] == found["cloud"]


def test_a_memory_does_not_rank_higher_for_having_relations(words: Satchel):
    one, _, other = words.add_many([*APPLES[:2], Draft("brick", at=DAY)])
    words.relate(one.id, other.id)
    first, second, _ = words.search("apple")
    assert first.score == second.score


def test_what_is_found_ranks_higher_for_being_related_to_what_is_found(words: Satchel):
    one, other, alone = words.add_many(APPLES)
    words.relate(other.id, alone.id)
    hits = words.search("apple")
    assert {hits[0].memory.id, hits[1].memory.id} == {other.id, alone.id}
    assert hits[2].memory.id == one.id
    assert hits[1].score > hits[2].score


def contradicted(bag: Satchel, strength: float) -> tuple[float, float, float]:
    """The scores of what contradicts, of what it contradicts, and of what has nothing to do with either."""
    against, target, neutral = bag.add_many(APPLES)
    bag.relate(against.id, target.id, "contradicts", strength=strength)
    found = {hit.memory.id: hit.score for hit in bag.search("apple")}
    return found[against.id], found[target.id], found[neutral.id]


def test_what_is_contradicted_ranks_lower_and_what_contradicts_it_higher(words: Satchel):
    against, target, neutral = contradicted(words, 1.0)
    assert against > neutral > target


def test_a_weaker_contradiction_lowers_less(words: Satchel):
    _, faintly, neutral = contradicted(words, 0.2)
    words.forget(everything=True, purge=True)
    _, strongly, _ = contradicted(words, 1.0)
    assert neutral > faintly > strongly


def test_what_a_find_contradicts_is_not_brought_by_it_but_what_contradicts_a_find_is(words: Satchel):
    apple, brick = words.add_many([Draft("apple", at=DAY), Draft("brick", at=DAY)])
    words.relate(apple.id, brick.id, "contradicts")
    assert list(scores(words.search("apple"))) == ["apple"]
    assert list(scores(words.search("brick"))) == ["brick", "apple"]


@pytest.mark.parametrize("kind", ["related", "contradicts"])
def test_relations_with_what_is_outside_a_view_do_nothing_in_it(words: Satchel, kind):
    p, q = words.scoped(project="p"), words.scoped(project="q")
    plain, linked = p.add_many(APPLES[:2])
    outside = q.add("brick", at=DAY)
    words.relate(outside.id, linked.id, kind)
    words.relate(linked.id, outside.id, kind)
    hits = p.search("apple", explain=True)
    assert [hit.memory.id for hit in hits] == [plain.id, linked.id]
    assert hits[0].score == hits[1].score
    assert hits[1].parts["graph"] == 0
    assert "brick" in scores(words.search("apple")) or kind == "contradicts"


def test_what_names_the_same_as_a_find_ranks_above_what_names_another(words: Satchel):
    words.add_many(
        Draft(text, at=DAY, ref=ref)
        for ref, text in (
            ("other", "Later on Gustav Ortega moved to Lyon."),
            ("same", "Later on Melanie Brandt moved to Lyon."),
            ("find", "The zebra shelter is led by Melanie Brandt from Lyon."),
        )
    )
    found = {hit.memory.ref: hit for hit in words.search("zebra Lyon", explain=True)}
    assert found["same"].score > found["other"].score
    assert found["same"].parts["graph"] > found["other"].parts["graph"]
    assert found["same"].parts["words"] == found["other"].parts["words"]
