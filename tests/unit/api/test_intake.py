"""What is stored: inside its scope, without secrets in any field, with its tokens counted."""

import pytest

import satchel
from invented_secrets import ASSIGNED, EVERY_TOKEN, IN_CONTEXT
from satchel import Draft, Scope
from satchel.api.saving import new_candidate
from satchel.text.redact import redact

SECRET = EVERY_TOKEN[0][1]


@pytest.mark.parametrize("field", ["text", "title", "source", "speaker", "tags"])
def test_a_secret_is_masked_in_any_field(field):
    for _, secret in EVERY_TOKEN:
        value = f"before {secret} after"
        if field != "text" and len(value) > 500:
            continue
        fields = {"text": "words", field: [value] if field == "tags" else value}
        memory = new_candidate(Draft(**fields), Scope()).memory
        stored = memory.tags[0] if field == "tags" else getattr(memory, field)
        assert stored == redact(value).text != value
        assert memory.masked == redact(value).masked


@pytest.mark.parametrize("field", ["ref", "topic_key"])
def test_a_secret_is_no_identity_since_two_masked_ones_would_be_the_same(field):
    with pytest.raises(satchel.InputError, match=f"{field} looks like a secret") as refusal:
        new_candidate(Draft("x", **{field: SECRET}), Scope())
    assert SECRET not in str(refusal.value)


def test_what_is_masked_must_still_be_within_its_limits():
    with pytest.raises(satchel.InputError, match="a memory holds at most"):
        new_candidate(Draft("a word, " * 124_900 + 'password="abcd"\n' * 40), Scope())


def test_what_is_masked_alone_is_masked_beside_other_fields():
    for _, *parts in (*IN_CONTEXT, *ASSIGNED):
        text = "\n".join(["words", "".join(parts)])
        memory = new_candidate(Draft(text, title="a title", tags=["tag"], ref="r"), Scope()).memory
        assert memory.text == redact(text).text != text
        assert memory.masked == redact(text).masked


def test_fields_that_only_together_look_like_a_secret_are_left_alone():
    memory = new_candidate(Draft("hunter2!x", title="password ="), Scope()).memory
    assert (memory.text, memory.title, memory.masked) == ("hunter2!x", "password =", ())


def test_tokens_are_counted_on_what_is_stored():
    memory = new_candidate(Draft("key " + SECRET), Scope()).memory
    assert memory.tokens == satchel.count_tokens(memory.text)


@pytest.mark.parametrize("text", ["<private>all of it</private>", "<private>never closed", SECRET])
def test_a_text_with_nothing_left_is_refused(text):
    with pytest.raises(satchel.InputError, match="whole text is private or secret"):
        new_candidate(Draft(text), Scope())


def test_a_secret_is_no_name_for_a_scope():
    with pytest.raises(satchel.InputError, match="project looks like a secret") as refusal:
        new_candidate(Draft("x", project=SECRET), Scope())
    assert SECRET not in str(refusal.value)
