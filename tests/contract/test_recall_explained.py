"""`explain` says why a memory was found: the contribution of each feature, and the passage that matched."""

import math

import pytest

from satchel import Draft, Satchel
from satchel.recall.features import PARTS

pytestmark = pytest.mark.usefixtures("all_matches")

ROUNDING = 0.0005 * len(PARTS)


def log_odds(score: float) -> float:
    return math.log(score / (1 - score))


@pytest.fixture
def told(notes: Satchel) -> Satchel:
    lines = ["Where is the crane?", "By the harbour.", "The crane is blue.", "It was painted.", "In March."]
    notes.add_many(
        Draft(line, session="s1", at=f"2024-03-0{number + 1}", importance=number / 5, tier="conversation")
        for number, line in enumerate(lines)
    )
    notes.add("A crane is a bird, too.", confidence=0.5, pinned=True)
    return notes


def test_without_explain_there_are_no_parts(told: Satchel):
    assert {hit.parts for hit in told.search("crane")} == {None}


def test_every_part_is_told_and_explaining_changes_nothing_else(told: Satchel):
    explained, plain = told.search("blue crane", explain=True), told.search("blue crane")
    assert [hit.memory.id for hit in explained] == [hit.memory.id for hit in plain]
    assert [hit.score for hit in explained] == [hit.score for hit in plain]
    assert all(list(hit.parts) == list(PARTS) for hit in explained)
    assert explained.text == plain.text


def test_parts_differ_between_hits_by_as_much_as_their_log_odds(told: Satchel):
    hits = told.search("Is the blue crane by the harbour painted?", explain=True)
    assert len(hits) >= 4
    first = hits[0]
    for hit in hits[1:]:
        apart = sum(first.parts.values()) - sum(hit.parts.values())
        assert apart == pytest.approx(log_odds(first.score) - log_odds(hit.score), abs=2 * ROUNDING)


def test_the_passage_of_a_long_memory_is_where_the_words_are(words: Satchel):
    paragraphs = [f"Paragraph {number} tells of nothing that anyone would ask about. " * 8 for number in range(6)]
    paragraphs[4] = "Here the harbour crane is painted blue at last. " * 10
    others = [f"Another page: part {number} of it is about the price of bread. " * 8 for number in range(6)]
    others[1] = "There a crane, too, is mentioned once among so many other things. " * 8
    words.add("\n\n".join(others), at="2024-01-01")
    words.add("\n\n".join(paragraphs), title="A long page", at="2024-01-02")
    hits = words.search("painted crane")
    assert [hit.memory.text[slice(*hit.passage)] for hit in hits] == [paragraphs[4].strip(), others[1].strip()]


def test_a_memory_of_a_single_passage_has_none_to_point_at(words: Satchel):
    words.add("The crane is blue.")
    assert words.search("crane")[0].passage is None
