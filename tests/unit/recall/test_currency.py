"""Which memory supersedes which, over tables of true updates and of things that only look alike."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from update_pairs import LOOK_ALIKES, UPDATES

import satchel
from satchel import Draft, Satchel
from satchel.recall.question import about_then
from satchel.text.dates import named_times

pytestmark = pytest.mark.usefixtures("all_matches")

THEN, LATER = datetime(2025, 8, 1, 9, tzinfo=UTC), datetime(2026, 3, 1, 9, tzinfo=UTC)
NOW = datetime(2026, 10, 15, 10, tzinfo=UTC)
OLDER, NEWER = "Our family doctor is Dr. Hollis.", "Dr. Hollis has retired. Our family doctor is now Dr. Amari."


def drafts(pairs: list[tuple[str, str, str]], name: str) -> Iterator[Draft]:
    for place, (_, older, newer) in enumerate(pairs):
        yield Draft(older, at=THEN + timedelta(days=place), ref=f"{name}{place} older")
        yield Draft(newer, at=LATER + timedelta(days=place), ref=f"{name}{place} newer")


@pytest.fixture(scope="module")
def told() -> Iterator[Satchel]:
    """All pairs of both tables together, so that each also has the others to be confused with."""
    with satchel.open(":memory:") as bag:
        bag.add_many([*drafts(UPDATES, "update "), *drafts(LOOK_ALIKES, "look-alike ")])
        yield bag


def asked(bag: Satchel, question: str) -> tuple[list[str | None], dict[str | None, str | None]]:
    """The refs found, and what is marked as overtaken by which."""
    hits = bag.search(question, limit=20)
    refs = {hit.memory.id: hit.memory.ref for hit in hits}
    return list(refs.values()), {hit.memory.ref: refs[hit.overtaken_by] for hit in hits if hit.overtaken_by}


def test_most_updates_rank_above_what_they_overtake_and_most_are_marked(told: Satchel):
    above = marked = 0
    for place, (question, _, _) in enumerate(UPDATES):
        older, newer = f"update {place} older", f"update {place} newer"
        refs, marks = asked(told, question)
        above += newer in refs and (older not in refs or refs.index(newer) < refs.index(older))
        marked += marks.get(older) == newer
    assert len(UPDATES) >= 40
    # 42 and 35 of 44.
    assert above >= 40
    assert marked >= 30


def test_no_look_alike_is_marked_and_few_lose_their_rank(told: Satchel):
    above, marked = 0, []
    for place, (question, older, newer) in enumerate(LOOK_ALIKES):
        refs, marks = asked(told, question)
        if f"look-alike {place} older" in marks:
            marked.append((question, older, newer))
        first = refs.index(f"look-alike {place} older")
        above += f"look-alike {place} newer" not in refs[:first]
    assert len(LOOK_ALIKES) >= 30
    assert marked == []
    # 32 of 38; 37 without looking for what overtakes what.
    assert above >= 30


def marks_of(older: Draft, newer: Draft) -> int:
    with satchel.open(":memory:") as bag:
        bag.add_many([older, newer])
        return sum(hit.overtaken_by is not None for hit in bag.search("Who is our family doctor?"))


def test_only_a_statement_of_what_was_done_overtakes_and_only_after_a_while():
    cases = [
        (Draft(OLDER, at=THEN), Draft(NEWER, at=LATER), 1),
        (Draft(OLDER, at=LATER), Draft(NEWER, at=LATER + timedelta(minutes=5)), 0),
        (Draft(OLDER, at=LATER), Draft(NEWER, at=THEN), 0),
        (Draft(OLDER, at=THEN), Draft(OLDER, at=LATER), 0),
        (Draft(OLDER, at=THEN), Draft(NEWER, at=LATER, kind="todo"), 0),
        (Draft(OLDER, at=THEN), Draft(NEWER, at=LATER, kind="error"), 0),
        (Draft(OLDER, at=THEN), Draft(NEWER, at=LATER, kind="procedure"), 0),
        (Draft(OLDER, at=THEN), Draft(f"Should we do it? {NEWER[:-1]}?", at=LATER), 0),
        (Draft(OLDER, at=THEN), Draft(f"Idea: {NEWER}", at=LATER), 0),
        (Draft(OLDER, at=THEN, tier="conversation"), Draft(NEWER, at=LATER, tier="conversation"), 0),
    ]
    for older, newer, marks in cases:
        assert marks_of(older, newer) == marks, (older, newer)


AT_FIRST = "at first"
QUESTIONS = {
    "What does our CI run on?": None,
    "What did we choose for CI?": None,
    "Who was hired for support?": None,
    "What do I have to check before a release?": None,
    "Do we still use what we used before?": None,
    "Do I have to teach this winter?": None,
    "What do we do on Sunday?": None,
    "What has changed since March 2026?": None,
    "What did our CI run on before the move?": AT_FIRST,
    "What did we originally plan?": AT_FIRST,
    "What CI did we use at first in 2025?": AT_FIRST,
    "Where did we use to build, back then?": AT_FIRST,
    "Which editor did Sam previously use?": AT_FIRST,
    "What did it cost in 2025?": "2026-01-01",
    "What was the price in October 2025?": "2025-11-01",
    "Worauf läuft unser CI jetzt?": None,
    "Worauf lief unser CI früher?": AT_FIRST,
    "Was kostete es im Jahr 2025?": "2026-01-01",
    "Wer ist jetzt zuständig?": None,
    "Qui est notre contact maintenant ?": None,
    "Où habitait Maman avant le déménagement ?": AT_FIRST,
    "Qui était notre contact à l'époque ?": AT_FIRST,
    "Que dois-je faire avant la réunion ?": None,
    "¿Quién es el contacto ahora?": None,
    "¿Qué usábamos antes?": AT_FIRST,
    "¿Qué hago antes de salir?": None,
    "¿Cuánto costaba en 2025?": "2026-01-01",
    "今のチャットは何ですか": None,
    "以前のチャットは何でしたか": AT_FIRST,
    "2025年の担当者は誰でしたか": "2026-01-01",
}


def test_a_question_is_about_now_unless_it_says_otherwise():
    for question, then in QUESTIONS.items():
        moment = about_then(question, named_times(question, NOW), NOW)
        said = None if moment is None else AT_FIRST if moment.year == 1 else moment.date().isoformat()
        assert said == then, question


def test_a_time_that_is_not_over_is_now():
    for question in ("What did we decide today?", "What was planned for October 2026?", "Is it due in 2027?"):
        assert about_then(question, named_times(question, NOW), NOW) is None, question
