"""Questions about the course of events: which they are, and that their context covers each session."""

import math
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from satchel import Draft, Satchel, count_tokens
from satchel.recall import question
from satchel.recall.question import asks_for_course
from satchel.recall.rerank import LATER, LONGEST_PART, OPENING, course
from satchel.recall.sheet import Sheet
from satchel.store.contract import Trace

COURSE = {
    "English": [
        "In what order did I bring up the topics of the kitchen?",
        "Can you list the order in which I mentioned the suppliers?",
        "Could you walk me through how the migration came together?",
        "Walk us through our journey with the vendor.",
        "Give me a short summary of the talks with the landlord.",
        "I need a complete overview of my training plan, please",
        "Please briefly summarise what we decided about the roof",
        "Summarize my progress in French",
        "And sum up the water damage: cause, cost, repair.",
        "How has my diet changed over the past year?",
        "How have the prices evolved?",
        "How did the launch date move over time until it was out?",
        "How did the roof job go, from the offers to the finished work?",
        "How did we come to have a heat pump?",
        "What has happened with the insurance claim so far?",
        "What have we tried against the memory leak so far?",
        "What's the story behind the second router?",
        "The story of the migration",
        "Give me the history of our SMS vendors from the beginning.",
        "Put the events of the outage in chronological order.",
        "Catch me up on the visa application",
        "Bring us up to speed: what is going on with paper 2?",
    ],
    "German": [
        "In welcher Reihenfolge habe ich die Themen angesprochen?",
        "Nenne die Reihenfolge, in der wir die Anbieter besprochen haben.",
        "Fass bitte zusammen, was wir zum Dach beschlossen haben.",
        "Fasse die Gespräche mit dem Vermieter zusammen",
        "Kannst du mir das zusammenfassen?",
        "Gib mir einen Überblick über unsere Umstellung.",
        "Wie hat sich mein Gewicht im letzten Jahr entwickelt?",
        "Wie haben sich die Preise verändert?",
        "Wie ist die Dachsanierung gelaufen, von den Angeboten bis zur Abnahme?",
        "Was ist bisher mit der Versicherung passiert?",
        "Erzähl mir die Geschichte der Migration.",
        "Bring mich auf den neuesten Stand",
    ],
    "French": [
        "Dans quel ordre ai-je abordé les sujets ?",
        "Donne l’ordre dans lequel j’ai parlé des fournisseurs",
        "Résume-moi ce que nous avons décidé pour le toit.",
        "Peux-tu récapituler tout le projet ?",
        "Fais un résumé complet de nos discussions",
        "Comment mon poids a-t-il évolué cette année ?",
        "Que s'est-il passé avec l'assurance ?",
        "Raconte-moi l'histoire de la migration",
    ],
    "Spanish": [
        "¿En qué orden mencioné los temas?",
        "El orden en que hablé de los proveedores",
        "Resume lo que decidimos sobre el tejado",
        "¿Puedes resumir mi proyecto?",
        "Dame un resumen completo de nuestras conversaciones",
        "¿Cómo ha evolucionado mi dieta?",
        "¿Qué ha pasado con el seguro hasta ahora?",
        "Cuéntame la historia de la migración",
    ],
    "Japanese": [
        "どの順番で話題を出しましたか？",
        "引っ越しの件を時系列で教えて",
        "屋根の工事についてまとめてください",
        "これまでの会話を要約して",
        "体重はどのように変化しましたか",
        "予算はどう変わった？",
        "移行の経緯を教えてください",
    ],
}

OTHER = [
    "",
    "When did I first bring up the roof?",
    "When did the launch date change over time?",
    "How many times did the launch date change over time?",
    "How long have the talks developed so far?",
    "Who asked you to give me a summary of the talks?",
    "Where did I write the summary of the talks?",
    "When did I ask what has happened with the claim?",
    "What is the order number of the boiler?",
    "Which book on the history of Rome did I like?",
    "Did I order the tiles in white?",
    "How should I design my resume?",
    "Resume the download of the backup",
    "Have I changed the resume since March?",
    "Can you walk me through how to prove this theorem?",
    "How did I move my work from the old cluster to the new one?",
    "How did the interview go?",
    "What did Ana say about the summary tab?",
    "How do I change the oil?",
    "Did the order that came broken go back?",
    "Do I have a history of migraines?",
    "What is the best course of action here?",
    "I will retrace my steps",
    "Wie kann ich Zellen in der Tabelle zusammenfassen?",
    "Hat Ana die Zusammenfassung der Sitzung geschickt?",
    "Ist der Treiber auf dem neuesten Stand?",
    "As-tu envoyé le résumé de la réunion ?",
    "Comment on change une roue ?",
    "¿Cómo cambio la contraseña?",
    "¿Dónde está el resumen de la reunión?",
    "Wann haben wir besprochen, in welcher Reihenfolge wir bauen?",
    "Wie ist das Gespräch gelaufen?",
    "Wie ändere ich das Passwort?",
    "Wie viele Angebote haben sich bisher geändert?",
    "Quand ai-je dit dans quel ordre lire les livres ?",
    "Comment s'est passé l'entretien ?",
    "¿Cuándo dije en qué orden leer los libros?",
    "¿Cómo se llama la historia que leí?",
    "いつ引っ越しの経緯を話しましたか",
    "まとめ買いした商品は何ですか",
    "順番待ちの番号は？",
    # What is pasted is not the question.
    "Why does this fail? " + "log line " * 60 + "in what order did I bring up " + "log line " * 60,
]


def test_questions_about_the_course_of_things_are_known_in_five_languages():
    missed = [text for texts in COURSE.values() for text in texts if not asks_for_course(text)]
    assert not missed


def test_other_questions_are_not_taken_for_them():
    assert not [text for text in OTHER if asks_for_course(text)]


@pytest.mark.parametrize("forms", question._COURSE_WORDS, ids=("English", "German", "French", "Spanish"))
@given(data=st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
def test_a_text_that_matches_a_pattern_has_one_of_the_words_that_are_looked_for_first(
    forms: tuple[str, ...], data: st.DataObject
):
    pattern = data.draw(st.sampled_from([one for form in forms for one in _alternatives(form)]))
    text = data.draw(st.from_regex(pattern, fullmatch=True))
    assert any(word in text for word in question._COURSE_WORDS[forms]), (pattern, text)


def _alternatives(pattern: str) -> list[str]:
    """Split a pattern at each | that is not inside parentheses."""
    parts, depth = [""], 0
    for character in pattern:
        depth += (character == "(") - (character == ")")
        if character == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def test_letters_and_accents_do_not_matter():
    texts = [text for texts in COURSE.values() for text in texts]
    plain = [text.upper().replace("É", "E").replace("Ó", "O").replace("Ä", "A") for text in texts]
    assert all(map(asks_for_course, plain))


def test_a_question_after_a_long_text_is_read():
    assert asks_for_course("log line " * 5_000 + "\n\nWhat has happened with the deploy so far?")


SESSIONS = 6
OPENINGS = [f"I want to talk about the garden shed, part {number}." for number in range(SESSIONS)]
TALK = (
    "The garden shed and its order of jobs: the shed in the garden wants thing {0}, and the garden shed thing {1}."
)
ASKED = "In what order did I bring up things about the garden shed?"
PLAIN = "Which things did I bring up about the garden shed, and whose order was it?"
BUDGET = 420


@pytest.fixture
def history(notes: Satchel) -> Satchel:
    """Six sessions that open with the shed; the fourth goes on about nothing else, the others about the weather."""
    for number, opening in enumerate(OPENINGS):
        other = [f"Clouds number {number} {turn} over the hills again." for turn in range(14)]
        more = [TALK.format(turn, turn + 20) for turn in range(14)] if number == 3 else other
        notes.add_many(
            Draft(
                text,
                tier="conversation",
                session=f"s{number}",
                speaker="assistant" if turn % 2 else "user",
                at=f"2026-0{number + 1}-10T09:{turn:02}:00",
            )
            for turn, text in enumerate([opening, *more])
        )
    return notes


def test_the_context_has_a_piece_of_each_session_in_time_order(history: Satchel):
    text = history.context(ASKED, token_budget=BUDGET).text
    places = [text.find(opening) for opening in OPENINGS]
    assert -1 not in places
    assert places == sorted(places)
    assert count_tokens(text) <= BUDGET


def test_another_question_of_the_same_words_stays_with_what_is_most_like_it(history: Satchel):
    text = history.context(PLAIN, token_budget=BUDGET).text
    with patch.object(question, "asks_for_course", return_value=False):
        assert history.context(PLAIN, token_budget=BUDGET).text == text
        without = history.context(ASKED, token_budget=BUDGET).text
    assert not all(opening in without for opening in OPENINGS)


def test_a_search_ranks_by_the_question_alone(history: Satchel):
    found = [hit.memory.id for hit in history.search(ASKED, limit=20)]
    with patch.object(question, "asks_for_course", return_value=False):
        assert [hit.memory.id for hit in history.search(ASKED, limit=20)] == found


def test_the_parts_of_an_explanation_add_up_with_the_course(history: Satchel):
    hits = history.context(ASKED, token_budget=BUDGET, explain=True).hits
    odds = [math.log(hit.score / (1 - hit.score)) - sum(hit.parts.values()) for hit in hits]
    assert odds == pytest.approx([odds[0]] * len(odds), abs=0.01)


def test_notes_without_a_session_are_left_as_they_are(notes: Satchel):
    notes.add_many(Draft(f"The shed, note {number}.", at=f"2026-01-{number + 1:02}") for number in range(20))
    asked = notes.context(ASKED, token_budget=150).text
    with patch.object(question, "asks_for_course", return_value=False):
        assert notes.context(ASKED, token_budget=150).text == asked


def trace(number: int, **fields: object) -> Trace:
    known = {"thread": "s", "tier": "conversation", "speaker": "user", "at": number * 60_000_000}
    empty = {
        "kind": "note",
        "importance": 0.5,
        "confidence": 1.0,
        "pinned": 0,
        "tokens": 9,
        "status": "active",
        "valid_from": None,
        "invalid_at": None,
        "uses": 0,
        "passages": (),
    }
    return Trace(**({"key": number, "id": f"{number:04}"} | known | empty | fields))


def gains(traces: list[Trace], scores: list[float] | None = None) -> list[float]:
    found = course(Sheet.of(traces), np.array(scores or [0.01] * len(traces)))
    return found.round(3).tolist()


def test_what_opens_a_part_gains_most_and_what_comes_late_loses():
    found = gains([trace(number) for number in range(90)], [0.5 / (number + 1) for number in range(90)])
    assert found[0] == OPENING
    assert found == sorted(found, reverse=True)
    assert found[-1] < -OPENING


def test_a_pause_or_a_hundred_memories_begin_another_part():
    hours = 3_600_000_000
    assert gains([trace(0), trace(1, at=7 * hours)]) == [OPENING, OPENING]
    assert gains([trace(0), trace(1, at=5 * hours)])[1] < OPENING
    assert gains([trace(0), trace(1, thread="t")]) == [OPENING, OPENING]
    found = gains([trace(number) for number in range(LONGEST_PART + 1)])
    assert found[LONGEST_PART] == OPENING > found[LONGEST_PART - 1]


def test_each_further_memory_of_a_part_brings_less_apart_from_replies():
    both = gains([trace(0), trace(1), trace(2)], [0.01, 0.001, 0.01])
    assert both[0] > both[2] > both[1] - LATER * 2
    assert both[2] < OPENING - 2 * LATER
    reply = gains([trace(0), trace(1, speaker="assistant")])
    assert reply == [OPENING, OPENING - LATER]


def test_what_was_not_said_in_a_conversation_gains_nothing():
    assert gains([trace(0, tier="knowledge"), trace(1, tier="knowledge"), trace(2, thread=None)]) == [0.0] * 3
    assert gains([]) == []
