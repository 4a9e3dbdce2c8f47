"""Values of other libraries become items: text, metadata and score."""

import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pytest

from satchel.errors import InputError
from satchel.fitting.documents import as_items
from satchel.fitting.renditions import as_item
from satchel.model.memory import Hit, Memory, Scope
from satchel.model.packing import Item
from tables import each_row

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class Document:
    """LangChain's, with the attributes of langchain-core 1.7."""

    page_content: str
    metadata: dict[str, Any] = field(default_factory=dict)
    id: str | None = None
    type: str = "Document"

    def __iter__(self):
        yield from vars(self).items()


@dataclass
class TextNode:
    """LlamaIndex's, with the attributes of llama-index-core 0.14."""

    text: str
    metadata: dict[str, Any] = field(default_factory=dict)
    id_: str = "node-id"

    @property
    def node_id(self) -> str:
        return self.id_

    @property
    def extra_info(self):
        raise DeprecationWarning("use metadata")

    def get_content(self) -> str:
        return self.text


class Node:
    """LlamaIndex's own, which has its text only to ask for."""

    metadata: dict[str, Any] = {}  # noqa: RUF012
    id_ = "bare"

    def get_content(self) -> str:
        return "asked for"


@dataclass
class NodeWithScore:
    node: TextNode | Node
    score: float | None = None

    @property
    def text(self) -> str:
        if isinstance(self.node, TextNode):
            return self.node.text
        raise ValueError("Node must be a TextNode to get text.")

    @property
    def metadata(self) -> dict[str, Any]:
        return self.node.metadata

    @property
    def id_(self) -> str:
        return self.node.id_


def memory(**fields) -> Memory:
    known = {"id": "m1", "text": "A memory", "at": NOON, "created_at": NOON, "updated_at": NOON, "tokens": 2}
    return Memory(**{**known, **fields})


def only(thing) -> Item:
    [item] = as_items([thing])
    return item


def values(*scores) -> dict[str, float]:
    """By text, in rank order: each thing is called by its place."""
    things = [{"text": str(place), "score": score} for place, score in enumerate(scores)]
    return {item.text: item.value for item in as_items(things)}


def test_a_string_is_its_own_text():
    assert only("some text") == Item(id="item-1", text="some text", value=1.0)


def test_a_langchain_document_is_taken_as_it_is():
    metadata = {
        "title": "Notes",
        "author": "Ann",
        "category": "faq",
        "date": "2026-03-01T12:00:00Z",
        "session_id": 7,
    }
    item = only(Document("its text", {**metadata, "relevance_score": 0.4}, id="d1"))
    assert item == Item(
        id="d1", text="its text", title="Notes", speaker="Ann", kind="faq", at=NOON, thread="7", value=0.4
    )


def test_the_type_that_only_repeats_the_class_is_no_kind():
    assert only(Document("text")).kind is None
    assert only({"text": "text", "type": "Document"}).kind == "Document"


def test_pairs_of_a_document_and_its_score_are_taken():
    found = as_items([(Document("far", {"score": 0.9}), np.float32(0.25)), (Document("near"), np.float32(0.5))])
    assert [(item.text, item.value) for item in found] == [("near", 0.5), ("far", 0.25)]


def test_llamaindex_nodes_are_taken_with_and_without_their_score():
    node = TextNode("node text", {"title": "A node", "created_at": NOON.timestamp()}, "n1")
    assert only(node) == Item(id="n1", text="node text", title="A node", at=NOON)
    assert only(NodeWithScore(node, 0.7)) == Item(id="n1", text="node text", title="A node", at=NOON, value=0.7)
    assert only(NodeWithScore(node)).value == 1.0


def test_a_node_whose_text_must_be_asked_for_is_asked():
    assert only(NodeWithScore(Node(), 0.7)) == Item(id="bare", text="asked for", value=0.7)


def test_a_score_of_nothing_is_a_score():
    found = as_items([NodeWithScore(TextNode("last", {"score": 0.9}), 0.0), {"text": "first", "score": 0.5}])
    assert [(item.text, item.value) for item in found] == [("first", 1.0), ("last", 0.05)]


def test_a_dictionary_of_mem0_is_taken():
    found = only({"id": "x", "memory": "Likes tea", "score": 0.3, "metadata": None, "created_at": "2026-03-01"})
    assert found == Item(id="x", text="Likes tea", value=0.3, at=datetime(2026, 3, 1, tzinfo=UTC))


def test_a_point_of_a_store_that_wraps_a_document_is_taken():
    payload = {"page_content": "wrapped", "metadata": {"title": "Deep", "tier": "working"}}
    found = only({"id": 5, "score": 0.6, "payload": payload})
    assert found == Item(id="5", text="wrapped", title="Deep", tier="working", value=0.6)


def test_a_dictionary_with_a_node_of_its_own_sense_keeps_its_text():
    assert only({"text": "disk full", "node": "server-1"}).text == "disk full"


def test_a_memory_keeps_what_it_has():
    scope = Scope(project="p", session="s")
    found = only(memory(title="T", kind="decision", tier="working", scope=scope, pinned=True, superseded_by="m2"))
    assert found == Item(
        id="m1",
        text="A memory",
        title="T",
        kind="decision",
        tier="working",
        confidence=1.0,
        at=NOON,
        thread=("p", None, None, "s"),
        pinned=True,
        tokens=2,
        superseded_by="m2",
    )


def test_memories_without_a_session_share_no_thread():
    assert only(memory(scope=Scope(project="p"))).thread is None


def test_a_hit_brings_its_score_and_passage():
    found = only(Hit(memory(), 0.35, ((2, 8), (0, 1))))
    assert (found.id, found.value, found.passages) == ("m1", 0.35, ((2, 8), (0, 1)))


def test_what_came_after_a_memory_can_be_left_aside():
    hit = Hit(memory(superseded_by="m2"), 0.5)
    assert (as_item(hit).superseded_by, as_item(hit, superseded=False).superseded_by) == ("m2", None)


def test_an_item_stays_as_it_is():
    item = Item(id="a", text="text", value=0.2, passages=((0, 2),), superseded_by="b", thread=("t", 1))
    assert only(item) == item


def test_the_thing_itself_comes_before_its_metadata():
    outer = {"text": "outer", "score": 0.0, "metadata": {"text": "inner", "title": "T", "score": 0.9}}
    best, last = as_items([outer, {"text": "best", "score": 0.5}])
    assert (last.text, last.title, last.value, best.value) == ("outer", "T", 0.05, 1.0)


def test_a_named_tuple_is_no_pair():
    class Row(NamedTuple):
        score: float
        text: str

    assert only(Row(0.5, "row")) == Item(id="item-1", text="row", value=0.5)


def test_methods_are_no_values():
    class Odd:
        text = "odd"

        def title(self) -> str:
            return "called"

        def score(self) -> float:
            return 0.1

    assert only(Odd()) == Item(id="item-1", text="odd", value=1.0)


@pytest.mark.parametrize(
    "given",
    [NOON, "2026-03-01T12:00:00Z", "2026-03-01T13:00:00+01:00", NOON.replace(tzinfo=None), NOON.timestamp()],
    ids=["datetime", "ISO", "ISO with a zone", "without a zone", "epoch"],
)
def test_a_time_can_be_written_in_several_ways(given):
    assert only({"text": "x", "timestamp": given}).at == NOON


def test_a_date_is_its_midnight():
    assert only({"text": "x", "date": date(2026, 3, 1)}).at == datetime(2026, 3, 1, tzinfo=UTC)


@each_row("given", ["yesterday", "", 2026, 12.5, 10**20, math.nan, True, [], Decimal("1e9")])
def test_an_unreadable_time_is_none(given):
    assert only({"text": "x", "at": given}).at is None


def test_the_first_time_that_can_be_read_is_taken():
    assert only({"text": "x", "time": "noon", "created_at": NOON}).at == NOON


def test_what_is_told_besides_is_kept_where_it_can_be_used():
    good = only({"text": "x", "pinned": True, "confidence": 0.5, "conversation_id": "c", "role": "user"})
    assert (good.pinned, good.confidence, good.thread, good.speaker) == (True, 0.5, "c", "user")
    bad = only({"text": "x", "pinned": "no", "confidence": "high", "tokens": 5000, "role": 5, "title": "  "})
    assert bad == Item(id="item-1", text="x")


@pytest.mark.parametrize("tokens", [0, -1, True, 2.5])
def test_a_number_of_tokens_that_cannot_be_is_none(tokens):
    assert only({"text": "x", "tokens": tokens}).tokens is None


def test_things_without_an_id_are_called_by_their_place():
    things = [{"text": "a"}, {"text": "b", "id": "item-1"}, {"text": "c"}]
    assert [item.id for item in as_items(things)] == ["item-1-2", "item-1", "item-3"]


def test_an_id_that_comes_again_gets_a_number_and_takes_no_other_id():
    things = [{"text": "x", "id": name} for name in ("a", "a", "a-2", "a")]
    assert [item.id for item in as_items(things)] == ["a", "a-3", "a-2", "a-4"]


def test_an_id_may_be_a_uuid():
    assert only({"text": "x", "id": UUID(int=1)}).id == "00000000-0000-0000-0000-000000000001"


def test_surrogates_are_repaired():
    found = only({"text": "\ud83d\ude00", "title": "\ud83d"})
    assert (found.text, found.title) == ("😀", "\ufffd")


def test_scores_up_to_one_are_the_values_and_the_best_comes_first():
    assert list(values(0.2, 1.0, 0.5).items()) == [("1", 1.0), ("2", 0.5), ("0", 0.2)]


@pytest.mark.parametrize(
    "scores", [(-8.0, 2.0, -3.0), (5, 25, 15), (0, 1, 0.5), (-1e308, 1e308, 0), (-5e-324, 5e-324, 0)]
)
def test_other_scores_are_spread_over_the_values(scores):
    assert values(*scores) == pytest.approx({"1": 1.0, "2": 0.525, "0": 0.05})


def test_scores_that_are_all_equal_are_worth_one():
    assert values(7, 7) == {"0": 1.0, "1": 1.0}
    assert values(0, 0) == {"0": 1.0, "1": 1.0}


def test_without_scores_the_order_given_is_the_rank():
    found = as_items(["a", "b", "c", "d"])
    assert [item.text for item in found] == ["a", "b", "c", "d"]
    assert [item.value for item in found] == pytest.approx([1, 2**-0.5, 3**-0.5, 0.5])


def test_what_has_no_score_among_others_counts_as_the_lowest():
    assert list(values(None, 0.4, 0.8).items()) == [("2", 0.8), ("0", 0.4), ("1", 0.4)]
    assert values(None, 10, 20) == {"2": 1.0, "0": 0.05, "1": 0.05}


def test_nothing_gives_nothing():
    assert as_items(iter([])) == []


@pytest.mark.parametrize("score", [math.nan, math.inf, "0.5", True, [0.5], 10**400, 1j])
def test_a_score_that_is_no_finite_number_is_refused(score):
    with pytest.raises(InputError, match=r"item 2: score .* is not a finite number"):
        as_items(["a", {"text": "b", "score": score}])


def test_a_value_in_metadata_is_not_a_score():
    assert only({"text": "x", "value": 0.5, "metadata": {"value": "blue"}}).value == 0.5
    assert only({"text": "x", "metadata": {"value": "blue"}}).value == 1.0


def test_an_unknown_tier_is_refused_with_those_that_are_known():
    with pytest.raises(InputError, match="item 1: unknown tier 'gold'; known: working, conversation, knowledge"):
        as_items([Document("text", {"tier": "gold"})])


@pytest.mark.parametrize(
    ("thing", "called"),
    [({"title": "x"}, "dict"), ({"text": 5}, "dict"), (None, "NoneType"), (("a", "b", 1), "tuple")],
)
def test_a_thing_without_a_text_is_refused_by_its_place(thing, called):
    with pytest.raises(InputError, match=rf"item 2 \({called}\) has no text; looked for a string as text, page_c"):
        as_items(["a", thing])


def test_an_empty_text_is_refused_by_its_place():
    with pytest.raises(InputError, match=r"item 2 \(Document\) has an empty text"):
        as_items(["a", Document(" \n")])


@pytest.mark.parametrize("things", ["text", b"text", {"text": "x"}, Document("text"), memory(), 5, None])
def test_one_thing_instead_of_a_list_is_refused(things):
    with pytest.raises(InputError, match=r"must be a list, not \w+; put it into one"):
        as_items(things)
