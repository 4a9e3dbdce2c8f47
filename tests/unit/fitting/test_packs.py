"""Portable packs: whole memories, correct numbers, each format within its budget, and import."""

import json
import re
from collections.abc import Iterator

import pytest

import satchel
from satchel import Draft
from satchel.fitting.context_pack import parse_pack_markdown

pytestmark = pytest.mark.usefixtures("all_matches")

COUNTERS = ("o200k_base", "llama2", "claude-4.7", "chars/4")


@pytest.fixture
def thesis() -> Iterator[satchel.Satchel]:
    with satchel.open(":memory:") as bag:
        view = bag.scoped(project="thesis")
        view.add_many(
            Draft(
                f"Rotation, part {number}. " + "It goes on for some words. " * (number % 7),
                title=f"Note {number}" if number % 2 else None,
                kind="decision" if number % 3 else "fix",
                tier="working" if number % 5 == 0 else "knowledge",
                tags=["auth", f"n{number}"],
                importance=0.4 + number / 100,
                at=f"2026-02-{1 + number % 27:02}",
                speaker="Ana" if number % 4 == 0 else None,
            )
            for number in range(40)
        )
        yield view


@pytest.mark.parametrize("format", ["markdown", "json", "system_prompt", "raw"])
@pytest.mark.parametrize("query", [None, "rotation"])
def test_a_pack_is_within_its_budget_in_each_format(thesis, format, query):
    kept = []
    for budget in (0, 1, 30, 60, 150, 700, 5_000):
        pack = thesis.context_pack(query, token_budget=budget, format=format)
        assert satchel.count_tokens(pack.text) == pack.token_count <= budget
        assert len(pack.memories) + pack.omitted == len(pack.receipt.entries)
        kept.append(len(pack.memories))
    assert kept[0] == 0
    assert kept[-1] == 40
    assert kept == sorted(kept)


@pytest.mark.parametrize("counter", COUNTERS)
def test_the_heading_tells_the_truth_about_the_whole_text(counter):
    with satchel.open(":memory:", counter=counter) as bag:
        view = bag.scoped(project="thesis")
        for number in range(30):
            view.add(f"Rotation {number}: " + "some words more. " * (number % 9))
            pack = view.context_pack(token_budget=3_000)
            told = re.match(r"# Project Context: thesis \((\d+) memor(?:y|ies), ~(\d+) tokens\)\n", pack.text)
            assert told
            assert [int(each) for each in told.groups()] == [len(pack.memories), pack.token_count]
            assert satchel.count_tokens(pack.text, counter) == pack.token_count


def test_memories_in_a_pack_are_whole_and_can_be_read_back(thesis):
    pack = thesis.context_pack("rotation", token_budget=600)
    read = parse_pack_markdown(pack.text)
    assert [each.text for each in read] == [memory.text.strip() for memory in pack.memories]
    assert [(each.kind, each.tags) for each in read] == [(m.kind, m.tags) for m in pack.memories]
    assert "…" not in pack.text


def test_each_form_of_one_pack_is_within_the_budget(thesis):
    pack = thesis.context_pack(token_budget=400)
    assert pack.text == pack.to_markdown()
    assert satchel.count_tokens(pack.to_json()) <= 400
    told = json.loads(pack.to_json())
    assert told["token_count"] == satchel.count_tokens(pack.to_json())
    assert 0 < len(told["memories"]) < len(pack.memories)


def test_another_store_gets_the_memories_back(thesis):
    pack = thesis.context_pack(token_budget=None, format="json")
    lines = pack.text.encode().splitlines(keepends=True)
    with satchel.open(":memory:") as other:
        assert other.import_(lines).added == 40
        again = other.import_(lines)
        assert (again.added, again.updated, again.kept, again.problems) == (0, 0, 40, ())
        fields = ("text", "title", "kind", "tier", "tags", "importance", "confidence", "at", "speaker", "scope")
        for memory in pack.memories:
            brought = other.get(memory.id)
            assert [getattr(brought, name) for name in fields] == [getattr(memory, name) for name in fields]
            assert brought.tokens == memory.tokens


def test_a_secret_in_a_pack_from_elsewhere_is_masked_on_its_way_in(thesis):
    text = thesis.context_pack(token_budget=None, format="json").text
    text = text.replace("Rotation, part 3.", "The key is AKIAIOSFODNN7EXAMPLE today.")
    with satchel.open(":memory:") as other:
        other.import_([text.encode()])
        assert not any("AKIAIOSFODNN7EXAMPLE" in memory.text for memory in other.recent(limit=100))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda text: text[:-40], "not a whole JSON object"),
        (lambda text: text.replace('"version":1', '"version":99'), "pack version 99 is not known here"),
        (lambda text: text.replace('"memories":', '"others":'), "has no list of memories"),
        (lambda text: '{\n"a": 1\n}', "neither JSON lines nor a document with memories"),
    ],
)
def test_a_pack_that_is_not_whole_is_refused_in_one_line_and_changes_nothing(thesis, change, complaint):
    text = change(thesis.context_pack(token_budget=None, format="json").text)
    with satchel.open(":memory:") as other:
        with pytest.raises(satchel.InputError, match=complaint):
            other.import_(text.encode().splitlines(keepends=True))
        assert other.stats().memories == 0


def test_a_bad_memory_in_a_pack_is_named_by_its_line_and_the_others_come(thesis):
    text = thesis.context_pack(token_budget=None, format="json").text
    lines = text.splitlines(keepends=True)
    lines[3] = re.sub(r'"id":"[^"]*"', '"id":"nonsense"', lines[3])
    with satchel.open(":memory:") as other:
        done = other.import_([line.encode() for line in lines])
        assert done.added == 39
        assert [problem.line for problem in done.problems] == [4]


def test_nothing_fits_says_what_would(thesis):
    pack = thesis.context_pack("rotation", token_budget=20)
    assert (pack.text, pack.memories) == ("", ())
    assert thesis.context_pack("rotation", token_budget=pack.smallest_budget - 1).memories == ()
    assert len(thesis.context_pack("rotation", token_budget=pack.smallest_budget).memories) == 1


def test_nothing_found_needs_no_budget(thesis):
    pack = thesis.scoped(user="nobody").context_pack("rotation")
    assert (pack.text, pack.omitted, pack.smallest_budget) == ("", 0, None)


def test_an_unknown_format_is_refused(thesis):
    with pytest.raises(
        satchel.InputError, match="unknown format 'poem'; known: markdown, json, system_prompt, raw"
    ):
        thesis.context_pack(format="poem")
