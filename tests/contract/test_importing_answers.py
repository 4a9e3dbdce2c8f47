"""What an interface prints as JSON can be imported again: answers with memories, alone, in lists, in documents."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import satchel
from satchel import Draft, Memory, Satchel

HINT = "print it whole, with --detail full and without a token budget"


@pytest.fixture
def notes(bag: Satchel) -> Satchel:
    """In a project, with all that a memory can have."""
    view = bag.scoped(project="harbor")
    view.add_many(
        Draft(
            f"the harbor opens at {hour}",
            title=f"Hour {hour}",
            tags=["harbor"],
            metadata={"hour": hour},
            ref=f"h{hour}",
        )
        for hour in (7, 8, 9)
    )
    return view


@pytest.fixture
def other() -> Iterator[Satchel]:
    with satchel.open(":memory:") as opened:
        yield opened


def plain(value: Any) -> Any:
    return msgspec.to_builtins(value)


def kept(bag: Satchel) -> list[Memory]:
    found = sorted(bag.recent(limit=100, ended=True), key=lambda memory: memory.id)
    return [msgspec.structs.replace(each, access_count=0, accessed_at=None) for each in found]


def lines(value: Any, indent: int | None = None) -> list[bytes]:
    return json.dumps(value, indent=indent).encode().splitlines(keepends=True)


def answers(bag: Satchel) -> dict[str, Any]:
    """Answers that hold all three memories, as an interface gives them."""
    memories = plain(bag.recent())
    hits = plain(list(bag.search("harbor")))
    return {
        "a list": memories,
        "list": {"memories": memories},
        "search": {"text": "the harbor\\n…", "token_count": 3, "hits": hits, "omitted": 0},
        "hits alone": hits,
        "timeline": plain(bag.timeline(bag.recent()[1])),
    }


@pytest.mark.parametrize("indent", [None, 2])
def test_memories_of_an_answer_are_imported_whole(notes: Satchel, other: Satchel, indent: int | None):
    for name, answer in answers(notes).items():
        view = other.scoped(org=name)
        given = json.loads(json.dumps(answer).replace('"org": "default"', f'"org": "{name}"'))
        done = view.import_(lines(given, indent))
        assert (done.added, done.problems) == (3, ()), name
        expected = [
            msgspec.structs.replace(each, scope=msgspec.structs.replace(each.scope, org=name))
            for each in kept(notes)
        ]
        assert kept(view) == expected, name
        view.forget(everything=True, purge=True)


@pytest.mark.parametrize("indent", [None, 2])
def test_single_memories_are_imported_with_what_an_answer_says_of_them(
    notes: Satchel, other: Satchel, indent: int | None
):
    first, second, third = plain(kept(notes))
    for answer in (
        first,
        second | {"outcome": "saved", "similar": [{"id": first["id"], "headline": "the harbor", "score": 0.8}]},
        third | {"relations": [{"source": first["id"], "target": third["id"], "kind": "related"}]},
    ):
        assert other.import_(lines(answer, indent)).added == 1
    assert kept(other) == kept(notes)


def test_several_answers_one_after_the_other_are_json_lines(notes: Satchel, other: Satchel):
    first, second, third = plain(kept(notes))
    given = [
        {"memories": [first, second]},
        {"text": "of my own"},
        third,
        {"hits": [{"memory": first, "score": 0.5}]},
    ]
    done = other.import_([json.dumps(each).encode() + b"\n" for each in given])
    assert (done.added, done.kept, done.problems) == (4, 1, ())


def test_the_same_answer_again_changes_nothing_and_what_is_newer_stays(notes: Satchel):
    before = plain(notes.recent())
    changed = notes.update(notes.recent()[0].id, text="the harbor is closed")
    done = notes.import_(lines({"memories": before}))
    assert (done.added, done.updated, done.kept) == (0, 0, 3)
    assert notes.get(changed.id).text == "the harbor is closed"


def test_a_text_that_was_shortened_is_refused_and_the_others_are_imported(notes: Satchel, other: Satchel):
    first, second, third = plain(kept(notes))
    short = second | {"text": "the harbor…", "shortened": True}
    title_only = {"id": third["id"], "kind": "fact", "title": "Hour 9", "tokens": 7, "shortened": True}
    for given in (
        {"memories": [first, short, title_only]},
        {"hits": [{"memory": each} for each in (first, short, title_only)]},
    ):
        done = other.import_(lines(given))
        assert done.added + done.kept == 1
        assert [(problem.line, problem.message) for problem in done.problems] == [
            (1, f"memory {place}: its text was shortened; {HINT}") for place in (2, 3)
        ]
    with pytest.raises(satchel.InputError, match=r"line 1: its text was shortened; .* nothing was imported"):
        other.import_(lines(short), strict=True)
    assert kept(other) == kept(notes)[:1]


def test_a_memory_of_a_budgeted_answer_is_as_old_as_what_it_tells(other: Satchel):
    given = {
        "hits": [
            {
                "memory": {
                    "id": "01a1e252-5d00-7bc3-aca3-0fb7aac97b91",
                    "kind": "fact",
                    "tier": "knowledge",
                    "scope": {"org": "default", "project": "harbor"},
                    "at": "2026-02-10T09:30:00Z",
                    "text": "the harbor opens at 7",
                },
                "score": 0.5,
            }
        ],
        "included": 1,
    }
    assert other.import_(lines(given)).added == 1
    (memory,) = kept(other)
    assert memory.at == memory.created_at == memory.updated_at
    assert (memory.scope.project, memory.kind) == ("harbor", "fact")
    assert memory.tokens == satchel.count_tokens(memory.text)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"changes": []}, "neither a memory, a relation nor a draft"),
        ({"memories": [1]}, "memory 1: a JSON object is needed, not int"),
        ({"memories": [{"id": "x"}]}, "memory 1: it has no text; print it with --detail full"),
        ({"id": "x", "text": "y", "at": "2026-02-10"}, "Invalid RFC3339"),
        ([[]], "memory 1: a JSON object is needed, not list"),
    ],
)
def test_what_is_no_memory_is_told_in_one_line(other: Satchel, given: Any, said: str):
    done = other.import_(lines(given))
    assert len(done.problems) == 1
    assert done.problems[0].message.startswith(said)
    assert other.stats().memories == 0


def test_a_document_without_memories_is_refused(other: Satchel):
    with pytest.raises(satchel.InputError, match="neither JSON lines nor a document with memories"):
        other.import_(lines({"stats": 1}, 2))
    with pytest.raises(satchel.InputError, match="not a whole JSON object"):
        other.import_(lines({"memories": [{"text": "x"}]}, 2)[:-2])


def test_json_lines_with_a_bad_first_line_are_still_json_lines(other: Satchel):
    done = other.import_([b'{"text": "cut off",\n', b'{"text": "whole"}\n'])
    assert (done.added, [problem.line for problem in done.problems]) == (1, [1])


def test_empty_answers_bring_nothing(other: Satchel):
    for given in ({"memories": []}, [], {"hits": []}):
        assert other.import_(lines(given)) == satchel.Imported()
