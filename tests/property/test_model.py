"""What is stored can be read back; search never raises; budgets hold."""

from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import satchel
from satchel import Draft
from satchel.api.saving import new_candidate
from satchel.model.memory import KINDS, TIERS, Scope

pytestmark = pytest.mark.slow

words = st.text(min_size=1).filter(lambda text: text.strip())
names = st.none() | st.text(max_size=40)
times = st.none() | st.datetimes(min_value=datetime(1900, 1, 1), timezones=st.just(UTC))
weights = st.none() | st.floats(0, 1)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)

drafts = st.builds(
    Draft,
    text=words,
    title=st.none() | st.text(max_size=80),
    kind=st.none() | st.sampled_from(KINDS),
    tier=st.none() | st.sampled_from(TIERS),
    tags=st.none() | st.lists(st.text(max_size=20), max_size=5),
    metadata=st.none() | st.dictionaries(st.text(max_size=10), values, max_size=4),
    importance=weights,
    confidence=weights,
    pinned=st.none() | st.booleans(),
    at=times,
    valid_from=times,
    invalid_at=times,
    speaker=names,
    source=names,
    project=names,
    user=names,
    agent=names,
    session=names,
)

many = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


@many
@given(draft=drafts)
def test_what_is_put_in_comes_out(draft):
    expected = new_candidate(draft, Scope()).memory
    # A store of its own: the same text again would be the same memory.
    with satchel.open(":memory:") as bag:
        stored = bag.add_many([draft])[0]
        found = bag.get(stored.id)
    for name in draft.given():
        assert getattr(found, name) == getattr(expected, name), name
    assert found.scope == expected.scope
    if not expected.masked:
        assert found.text == draft.text


@many
@given(draft=drafts)
def test_an_export_imports_to_an_equal_store_and_twice_is_the_same_as_once(draft):
    with satchel.open(":memory:", embedder="none") as one, satchel.open(":memory:", embedder="none") as two:
        first = one.add_many([draft])[0]
        second = one.add("another")
        one.relate(second.id, first.id, "contradicts", strength=0.5)
        one.update(second.id, text="changed", tags=["t"])
        one.search("changed")
        lines = list(one.export())
        done = two.import_(lines)
        assert (done.added, done.relations, done.problems) == (2, 1, ())
        assert list(two.export()) == lines
        again = two.import_(lines)
        assert (again.added, again.updated, again.kept) == (0, 0, 2)
        assert list(two.export()) == lines


@many
@given(
    query=st.text() | st.text(alphabet='"*():^-+{}ANDORNT記憶 \x00\ud800', max_size=30),
    texts=st.lists(words, max_size=5),
    limit=st.integers(1, 20),
    budget=st.none() | st.integers(0, 400),
    detail=st.sampled_from(["summary", "standard", "full"]),
    form=st.sampled_from(["text", "json"]),
)
def test_search_never_raises_and_its_budget_binds(query, texts, limit, budget, detail, form):
    with satchel.open(":memory:") as bag:
        bag.add_many(Draft(f"{text} {query}" if query.strip() else text) for text in texts)
        hits = bag.search(query, limit=limit, token_budget=budget, detail=detail, format=form)
        assert len(hits) <= limit
        assert hits.token_count == satchel.count_tokens(hits.text)
        if budget is not None:
            assert hits.token_count <= budget


@many
@given(texts=st.lists(words, min_size=1, max_size=6), form=st.sampled_from(["text", "json"]))
def test_the_smallest_budget_that_is_named_is_enough_and_one_less_is_not(texts, form):
    with satchel.open(":memory:") as bag:
        bag.add_many(Draft(f"apple {text}") for text in texts)
        hits = bag.search("apple", token_budget=0, format=form)
        assert (len(hits), hits.text) == (0, "")
        smallest = hits.smallest_budget
        assert smallest is not None
        assert len(bag.search("apple", token_budget=smallest, format=form)) == 1
        assert len(bag.search("apple", token_budget=smallest - 1, format=form)) == 0


@many
@given(text=words)
def test_every_word_of_a_text_finds_it(text):
    with satchel.open(":memory:") as bag:
        memory = bag.add(text)
        for word in memory.text.split():
            hits = bag.search(word)
            # A run of marks without letters or digits is no word.
            if any(character.isascii() and character.isalnum() for character in word):
                assert [hit.memory.id for hit in hits] == [memory.id]
