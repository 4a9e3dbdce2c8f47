"""A newer memory about the same thing ranks first for a question about now, the older one for one about then."""

import json

import pytest

from satchel import Draft, Satchel
from satchel.fitting.formats import LAYOUTS

pytestmark = pytest.mark.usefixtures("all_matches", "as_installed")

# Older, newer, a question about now, and two about then.
PAIRS = [
    (
        "Our CI runs on Jenkins.",
        "We moved CI from Jenkins to GitHub Actions.",
        "What does our CI run on?",
        ("What did our CI run on before the move?", "What did our CI run on in 2025?"),
    ),
    (
        "Standup is every day at 9:30.",
        "Standup is now at 10:15, because of the school run.",
        "When is the standup?",
        ("When was the standup originally?", "When was the standup in October 2025?"),
    ),
    (
        "The Pro plan costs 29 dollars a month.",
        "From now on the Pro plan costs 39 dollars a month for new customers.",
        "What does the Pro plan cost?",
        ("What did the Pro plan cost back then?", "What did the Pro plan cost in 2025?"),
    ),
    (
        "Our family doctor is Dr. Hollis.",
        "Dr. Hollis has retired. Our family doctor is now Dr. Amari.",
        "Who is our family doctor?",
        ("Who used to be our family doctor?", "Who was our family doctor in 2025?"),
    ),
    (
        "Die Teambesprechung ist montags um 9:00.",
        "Die Teambesprechung ist ab sofort mittwochs um 14:00.",
        "Wann ist die Teambesprechung?",
        ("Wann war die Teambesprechung früher?", "Wann war die Teambesprechung im Jahr 2025?"),
    ),
    (
        "Maman habite rue des Tilleuls 9.",
        "Maman a déménagé de la rue des Tilleuls, elle habite maintenant aux Glycines.",
        "Où habite Maman ?",
        ("Où habitait Maman avant le déménagement ?", "Où habitait Maman en 2025 ?"),
    ),
    (
        "El contacto en Grupo Sol es Marta Gil.",
        "Marta Gil ya no está en Grupo Sol; ahora el contacto es Luis Prado.",
        "¿Quién es el contacto en Grupo Sol?",
        ("¿Quién era antes el contacto en Grupo Sol?", "¿Quién era el contacto en Grupo Sol en 2025?"),
    ),
    (
        "定例会議は月曜日の10時です。",
        "定例会議は水曜日の14時に変更になりました。",
        "定例会議は何曜日ですか",
        ("定例会議は以前は何曜日でしたか", "2025年の定例会議は何曜日でしたか"),
    ),
]


DOCTOR = PAIRS[3]


def remember(bag: Satchel) -> None:
    for number, (older, newer, _, _) in enumerate(PAIRS):
        bag.add_many(
            [
                Draft(older, at=f"2025-09-{number + 1:02}", ref=f"{number} older"),
                Draft(newer, at=f"2026-04-{number + 1:02}", ref=f"{number} newer"),
            ]
        )


@pytest.mark.parametrize("vectors", [True, False])
def test_the_newer_comes_first_for_now_and_the_older_for_then(opening, vectors: bool):
    with opening(**({} if vectors else {"embedder": "none"})) as bag:
        remember(bag)
        for number, (_, _, about_now, about_then) in enumerate(PAIRS):
            assert bag.search(about_now)[0].memory.ref == f"{number} newer", about_now
            for question in about_then:
                assert bag.search(question)[0].memory.ref == f"{number} older", question


LONG = "The surgery is at the health centre on Molenplein and takes calls on weekdays between eight and five, " * 2


def doctor(bag: Satchel) -> tuple[str, str]:
    """The ids of the older and of the newer, which is so long that the older alone may fit."""
    older = bag.add(DOCTOR[0], at="2025-09-01").id
    return older, bag.add(f"{DOCTOR[1]} {LONG.strip()}", at="2026-04-01").id


def test_a_listing_names_what_overtakes_a_hit(notes: Satchel):
    older, newer = doctor(notes)
    hits = notes.search(DOCTOR[2])
    assert [(hit.memory.id, hit.overtaken_by) for hit in hits] == [(newer, None), (older, newer)]
    _, short = notes.short_ids([older, newer])
    assert f"(2025-09-01, older; see {short})" in hits.text
    assert hits.text.count("older; see") == 1
    told = json.loads(notes.search(DOCTOR[2], format="json").text)["hits"]
    assert [hit.get("overtaken_by") for hit in told] == [None, newer]


@pytest.mark.slow
def test_what_is_cut_from_a_listing_is_not_named_in_it(notes: Satchel):
    older, newer = doctor(notes)
    question = DOCTOR[2]
    for format in ("text", "json"):
        whole, alone = notes.search(question, format=format).token_count, False
        for budget in range(1, whole + 1):
            hits = notes.search(question, format=format, token_budget=budget)
            assert hits.token_count <= budget
            shown = {hit.memory.id for hit in hits}
            both = {older, newer} == shown
            alone |= {older} == shown
            mark = "older; see" if format == "text" else '"overtaken_by"'
            assert (mark in hits.text) == both
            assert any(hit.overtaken_by for hit in hits) == both
        assert both
        assert alone


@pytest.mark.slow
@pytest.mark.parametrize("format", ["system_prompt", "markdown", "raw", "messages"])
def test_a_block_marks_what_is_older_where_it_has_both_and_holds_its_budget(notes: Satchel, format):
    older, newer = doctor(notes)
    question = DOCTOR[2]
    whole = notes.context(question, format=format, token_budget=None)
    assert [item.older for item in LAYOUTS[format].parse(whole.text)] == [True, False]
    seen = set()
    for budget in range(5, whole.token_count + 1):
        block = notes.context(question, format=format, token_budget=budget)
        assert block.token_count <= budget
        assert notes.counter.count(block.text) == block.token_count
        marks = [item.older for item in LAYOUTS[format].parse(block.text)] if block.text else []
        assert any(marks) == (len(marks) == 2), block.text
        assert any(hit.overtaken_by for hit in block.hits) == (len(block.hits) == 2)
        seen.add(frozenset(hit.memory.id for hit in block.hits))
    assert seen >= {frozenset([older]), frozenset([older, newer])}


def test_a_question_about_then_marks_nothing(notes: Satchel):
    doctor(notes)
    assert not any(hit.overtaken_by for hit in notes.search(DOCTOR[3][0]))
