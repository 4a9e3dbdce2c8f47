"""The kind of answer that a question asks for, from its words."""

import time

from satchel.recall.question import function_words, is_grammar, read_intent

KINDS = (
    ("What are my open todos?", "todo"),
    ("action items from the retro", "todo"),
    ("what should I do next?", "todo"),
    ("Welche Aufgaben sind noch offen?", "todo"),
    ("Quelles tâches me restent ?", "todo"),
    ("¿Qué tareas quedan?", "todo"),
    ("残っているタスクは?", "todo"),
    ("What did we decide about the database?", "decision"),
    ("our latest decision concerning support", "decision"),
    ("Was haben wir im Februar beschlossen?", "decision"),
    ("Qu'avons-nous décidé en mars ?", "decision"),
    ("¿Qué decidimos sobre el precio?", "decision"),
    ("料金について何を決めたか", "decision"),
    ("What are Mirela's preferences?", "preference"),
    ("What do I prefer for breakfast?", "preference"),
    ("Joris's dislikes", "preference"),
    ("lessons learned", "lesson"),
    ("Which lessons have I noted about baselines?", "lesson"),
    ("Known errors with the SMS vendor?", "error"),
    ("Which incidents did we have?", "error"),
    ("most recent error in training", "error"),
    ("What are the steps to replace the key?", "procedure"),
    ("the newest recipe I saved", "procedure"),
)
NO_KINDS = (
    "What is the error rate of the model?",
    "Do plots need error bars?",
    "Where do we run the task queue?",
    "What does the fixed rate cost?",
    "How long is the incident response phone line open?",
    "Who is Mila's cello teacher?",
)
NEWEST = (
    "What was our most recent incident?",
    "What is the latest decision concerning support?",
    "What's the last we heard about the rollout?",
    "What was our last decision about the mortgage?",
    "What did the vet say at Pepper's last visit?",
    "Was war unsere letzte Entscheidung?",
    "la dernière décision",
    "¿Cuál fue la última decisión?",
    "最新の決定は?",
)
NOT_NEWEST = (
    "anything from last week?",
    "What did we do in the last two weeks?",
    "the last 3 months",
    "What happened last night?",
    "letzte Woche",
    "la dernière semaine",
    "la última semana",
)


def test_a_question_can_ask_for_a_kind_by_its_name_in_five_languages():
    for question, kind in KINDS:
        assert read_intent(question).kinds == (kind,), question


def test_a_word_that_only_belongs_to_another_one_names_no_kind():
    for question in NO_KINDS:
        assert read_intent(question).kinds == (), question


def test_a_way_of_asking_suggests_a_kind_and_requires_none():
    for question, kind in (
        ("How do I roll back a release?", "procedure"),
        ("Wie kann ich den Schlüssel tauschen?", "procedure"),
        ("Why did we give up Jenkins?", "decision"),
        ("Who is in charge?", "fact"),
    ):
        intent = read_intent(question)
        assert (intent.kinds, kind in intent.likely) == ((), True), question


def test_the_newest_is_asked_for_and_a_span_of_time_is_not_mistaken_for_it():
    for question in NEWEST:
        assert read_intent(question).order == "newest", question
    for question in NOT_NEWEST:
        assert read_intent(question).order is None, question


def test_the_oldest_is_asked_for():
    for question in ("Where had we originally planned to go?", "ursprünglich geplant", "au début", "最初の計画"):
        assert read_intent(question).order == "oldest", question


def test_a_question_about_reasons_is_known_in_five_languages():
    for question in (
        "Why is it slow?",
        "Warum nicht?",
        "Pourquoi ?",
        "¿Por qué?",
        "なぜですか",
        "For what reason?",
    ):
        assert read_intent(question).reasons, question
    assert not read_intent("Where is it?").reasons


def test_the_words_that_say_what_is_wanted_are_told_from_the_subject():
    assert read_intent("What is the latest decision concerning support?").words == {"latest", "decision"}


def test_the_language_is_told_by_function_words():
    for question, language in (
        ("Where is the key?", "en"),
        ("Wo ist der Schlüssel für das Haus?", "de"),
        ("Où est la clé de la maison ?", "fr"),
        ("¿Dónde está la llave de la casa?", "es"),
        ("鍵はどこですか", "ja"),
        ("Postgres", "en"),
    ):
        assert read_intent(question).language == language, question
    assert "der" in function_words("de")
    assert function_words("xx") == frozenset()


def test_pairs_of_japanese_grammar_are_no_subject():
    assert all(is_grammar(pair) for pair in ("です", "す か", "いつ"))
    assert not any(is_grammar(pair) for pair in ("航海", "6月", "タス", "ab"))


def test_no_text_takes_long_to_read():
    for text in ("the last " * 5_000, "décid" * 5_000, "how " * 5_000, "a" * 100_000, "に" * 50_000):
        started = time.perf_counter()
        read_intent(text)
        assert time.perf_counter() - started < 1, text[:20]
