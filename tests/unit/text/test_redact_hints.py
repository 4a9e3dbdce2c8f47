"""Hints: a rule is tried only if the text contains one of its hints, whatever earlier texts have shown."""

import random
import subprocess
import sys

import pytest
from bench import masking_samples
from bench.masking import unseen_samples
from bench.masking_samples import samples

from satchel.text.redact import redact
from satchel.text.secrets import numbers, searched
from satchel.text.secrets.searched import HintIndex


def groups_in(index: HintIndex, text: str) -> list[int]:
    return index.present(searched.searched(text))


def test_hints_are_found_by_their_letters_their_signs_and_in_other_alphabets():
    index = HintIndex([("zzsecretzz",), (" -z ",), ("zq",), ("пароль",), ("zz login: ",)])
    assert groups_in(index, "nothing of the kind") == []
    assert groups_in(index, "xZZSECRETZZx and -z 1, zq, Пароль") == [0, 1, 2, 3]
    assert groups_in(index, "zz login of zz login") == []
    assert groups_in(index, "zz login: here") == [4]


def test_a_new_index_finds_hints_in_words_that_were_plain_before():
    plain = HintIndex([("qqfirstqq",)])
    assert groups_in(plain, "a qqlaterqq word") == []
    assert groups_in(HintIndex([("qqlaterqq",)]), "a qqlaterqq word") == [0]


def test_the_memory_of_words_is_bounded_and_losing_it_changes_nothing(monkeypatch):
    monkeypatch.setattr(searched, "_WORDS_CACHED", 8)
    for number in range(40):
        word = "".join(chr(97 + int(digit)) for digit in f"{number:04}")
        assert redact(f"{word} {word}x plain words only").masked == ()
        assert redact(f"{word} password=hunter2{number}x").masked == ("password",)
    known = searched._hints.words
    assert len(known._known) <= 8


def test_a_hint_is_found_inside_words_of_any_length():
    index = HintIndex([("wwhintww",), ("wwh",), ("wwhintwwx",)])
    for before, after in ((0, 0), (3, 2), (20, 20), (500, 9_000)):
        assert groups_in(index, "y" * before + "wwhintww" + "y" * after) == [0, 1]
        assert groups_in(index, "y" * before + "WWHintwwx" + "y" * after) == [0, 1, 2]
    assert groups_in(index, "wwhin tww wwHy") == [1]
    assert groups_in(index, "ww h wh") == []


def test_the_memory_of_seed_words_is_bounded_and_losing_it_changes_nothing(monkeypatch):
    monkeypatch.setattr(numbers, "_WORDS_CACHED", 8)
    phrase = "legal winner thank year wave sausage worth useful legal winner thank yellow"
    for number in range(10):
        word = "".join(chr(97 + int(digit)) for digit in f"{number:04}")
        assert redact(f"{word} {word}x plain words only, as many as there are in a phrase, and more").masked == ()
        assert redact(f"{word}.\n{phrase}").masked == ("seed-phrase",)
        assert len(numbers._known_words) <= 8


def test_a_plain_text_compiles_no_rule_that_it_does_not_need():
    script = """
from satchel.text.redact import redact
from satchel.text.secrets import assignments, contexts, tables, values
assert redact("The build takes four minutes on two cores.\\nNobody minds.").masked == ()
rules = (assignments._UNQUOTED, contexts._PRIVATE_KEY, tables._COLUMN, values._CODE)
print([rule.pattern[:20] for rule in rules if "finditer" in vars(rule)])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def cut_and_joined(texts: list[str], count: int) -> list[str]:
    """Return pieces of some texts, in random order and joined in several ways."""
    rng = random.Random(7)
    found = []
    for _ in range(count):
        pieces = []
        for text in rng.choices(texts, k=rng.randint(1, 3)):
            start = rng.choice((0, 0, rng.randrange(len(text))))
            piece = text[start : start + rng.choice((40, 400, 4000))]
            pieces.append(rng.choice((piece, piece, piece.lower(), piece.upper())))
        found.append(rng.choice((" ", "\n", ", ", "\f", "İ", "é ")).join(pieces))
    return found


def test_no_rule_is_skipped_that_would_find_something(monkeypatch: pytest.MonkeyPatch):
    every = [*masking_samples.FIRST_SECRETS, *masking_samples.FIRST_HARMLESS]
    every += [*masking_samples.SECOND_SECRETS, *masking_samples.SECOND_HARMLESS]
    known = [*samples(every), *unseen_samples("kept"), *unseen_samples("released")]
    texts = [sample.text for sample in known if sample.text]
    texts += cut_and_joined(texts, 1_000)
    skipping = [redact(text) for text in texts]

    hints = searched._hints
    every_hint = [each for near in (*hints._by_stem.values(), hints._short, hints._foreign) for each in near]

    def within(hints: object, lowered: str, *_: object) -> list[object]:
        return [group for hint, group in every_hint if hint in lowered]

    monkeypatch.setattr(searched._Hints, "within", within)
    monkeypatch.setattr(searched.Run, "within", lambda *_: True)
    assert skipping == [redact(text) for text in texts]
