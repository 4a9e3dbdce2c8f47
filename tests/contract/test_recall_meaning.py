"""Search by meaning with an embedder; without one, search by words still works."""

from collections.abc import Sequence

import numpy as np
import pytest

import satchel
from satchel import Draft
from satchel.errors import EmbedderError

SENSES = (
    {"car", "automobile", "vehicle", "\u81ea\u52d5\u8eca"},
    {"cat", "kitten", "feline", "\u732b"},
    {"rain", "drizzle", "shower"},
    {"money", "cash", "salary"},
)


class Senses:
    """An embedder that knows which words mean the same, and fails when told to."""

    name = "senses"
    dimensions = 8

    def __init__(self) -> None:
        self.failing = False

    def embed(self, texts: Sequence[str]) -> "np.ndarray":
        if self.failing:
            raise EmbedderError("the server is down")
        rows = [[2.0 * any(word in text.casefold() for word in sense) for sense in SENSES] for text in texts]
        known = np.array(rows, np.float32).reshape(len(texts), len(SENSES))
        # What has no sense that is known points elsewhere, each time in the same direction.
        other = np.array([[1.0, -1.0, 1.0, -1.0]] * len(texts), np.float32).reshape(len(texts), 4)
        rows = np.hstack([known, 0.3 * other])
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def senses() -> Senses:
    return Senses()


@pytest.fixture
def bag(opening, senses):
    with opening(embedder=senses) as opened:
        opened.add_many(
            [Draft("Her kitten sleeps"), Draft("An automobile stands outside"), Draft("Drizzle all day")]
        )
        yield opened


def texts(hits) -> list[str]:
    return [hit.memory.text for hit in hits]


def test_a_paraphrase_is_found_without_a_word_in_common(bag):
    assert texts(bag.search("vehicle")) == ["An automobile stands outside"]
    assert texts(bag.search("shower")) == ["Drizzle all day"]
    assert list(bag.search("salary")) == []


def test_another_embedder_than_ours_is_trusted_with_any_script(bag):
    assert texts(bag.search("\u732b")) == ["Her kitten sleeps"]


def test_the_embedder_that_comes_with_it_finds_a_paraphrase(notes):
    notes.add_many([Draft("My doctor prescribed antibiotics"), Draft("The train leaves at nine")])
    assert texts(notes.search("physician prescribing medicine"))[0] == "My doctor prescribed antibiotics"


def test_without_an_embedder_only_words_find(words):
    words.add_many([Draft("Her kitten sleeps"), Draft("The cat sleeps")])
    assert texts(words.search("cat")) == ["The cat sleeps"]
    assert list(words.search("feline")) == []


def test_while_the_embedder_fails_words_find_what_is_there(bag, senses):
    senses.failing = True
    assert texts(bag.search("automobile")) == ["An automobile stands outside"]
    assert list(bag.search("vehicle")) == []
    bag.add("A bicycle stands inside")
    assert texts(bag.search("bicycle")) == ["A bicycle stands inside"]


def test_what_was_stored_while_the_embedder_failed_is_found_by_its_words(opening, senses):
    senses.failing = True
    with opening(embedder=senses) as bag:
        bag.add_many([Draft("Her kitten sleeps", session="s"), Draft("Rain", session="s")])
        assert texts(bag.search("kitten")) == ["Her kitten sleeps"]


def test_half_of_a_store_without_vectors_is_no_obstacle(opening, senses):
    with opening(embedder=senses) as bag:
        bag.add("Her kitten sleeps")
        senses.failing = True
        bag.add("A kitten plays")
        # The pause after a failure would hide that it works again.
        bag._indexer._paused_until = None
        senses.failing = False
        assert sorted(texts(bag.search("kitten"))) == ["A kitten plays", "Her kitten sleeps"]
        assert "Her kitten sleeps" in texts(bag.search("feline"))


def test_a_meaning_found_in_one_passage_of_many_is_enough(opening, senses):
    filler = "\n\n".join(
        f"Paragraph {number} speaks of something that has no sense at all. " * 8 for number in range(4)
    )
    with opening(embedder=senses) as bag:
        bag.add(f"{filler}\n\n{'Her kitten sleeps on and on. ' * 20}\n\n{filler}")
        bag.add("Drizzle")
        (hit,) = bag.search("feline")
        start, end = hit.passage
        assert "kitten" in hit.memory.text[start:end]


def test_a_store_is_searched_only_by_the_vectors_of_its_own_embedder(location, senses):
    with satchel.open(location, embedder=senses) as bag:
        bag.add("Her kitten sleeps")
    with satchel.open(location) as bag:
        assert list(bag.search("feline")) == []
        assert texts(bag.search("kitten")) == ["Her kitten sleeps"]
