"""For any text, no planted secret survives, masking is idempotent, and it is fast."""

import threading
from collections.abc import Callable

import pytest
from bench.masking import UNITS, cost, plain_text
from hypothesis import given, settings
from hypothesis import strategies as st

from invented_secrets import ASSIGNED, EVERY_TOKEN, IN_CONTEXT, TOKENS, UPPER, hexadecimal
from satchel.text import redact as redact_module
from satchel.text.redact import Redacted, redact
from tables import each_row

ADVERSARIAL = [
    *("a", "-", "QUJD", "sk-", "sk-ant-", "ghp_", "<private", "<private ", "<private>", "</private>"),
    *("eyJ.eyJ.", "eyJ-", "password=", 'password="', "password=f(", "password=[", "token=a.", "@"),
    *("://", "://a:", "://a:b@", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----\n", "\n", "\\n", "SG."),
    *("[masked:", "[masked:x]", "authorization: bearer ", "curl -u a:", "MTIz", "1234567:AA", "AKIA"),
]
ADVERSARIAL_VALUES = ["/a..", "eyJ-", "!", "a.", "a_", "a-1-", "a::", "a ", "\\", ";", ",a "]


def test_labels_come_in_order_of_appearance_one_per_occurrence() -> None:
    github, slack = TOKENS["github-token"][0], TOKENS["slack-token"][0]
    text = f"{slack} then <private>x</private>, {github}, password='hunter2' and {slack}"
    assert redact(text).masked == ("slack-token", "private", "github-token", "password", "slack-token")


def test_secrets_that_overlap_become_one_mask() -> None:
    github = TOKENS["github-token"][0]
    assert redact(f"password=ab-{github}-cd").text == "password=[masked:password]"
    assert redact(f"API_TOKEN={github}").text == "API_TOKEN=[masked:github-token]"
    assert redact(f"https://bob:{github}!tail@x.org").text == "https://bob:[masked:github-token]@x.org"


def test_a_mask_never_completes_a_private_tag() -> None:
    once = redact("a <private <private>b</private> c> d")
    assert once == Redacted("a <private [masked:private] c> d", ("private",))
    assert redact(once.text) == Redacted(once.text, ())


def test_a_mask_that_frees_an_edge_leaves_nothing_for_a_second_call() -> None:
    signature = "https://s3.aws.com/b/k?X-Amz-Signature=" + hexadecimal(64)
    token = TOKENS["anthropic-key"][0]
    assert redact(signature + token).masked == ("url-signature", "anthropic-key")
    assert redact("AKIA" + UPPER[:16] + "--password hunter2").masked == ("aws-access-key", "password")


@pytest.mark.parametrize("text", ["", "\x00", "\ud800", "\udfff" * 100, "İ" * 50, "\U0010ffff<private>\ud800"])
def test_strange_text_is_taken_as_it_is(text: str) -> None:
    assert redact(text).text.startswith(text.partition("<")[0])


FRAMED = [*IN_CONTEXT, *ASSIGNED]
FRAGMENTS = st.one_of(
    st.sampled_from([token for _, token in EVERY_TOKEN]),
    st.sampled_from([before + secret + after for _, before, secret, after in FRAMED]),
    st.sampled_from([before for _, before, _, _ in FRAMED]),
    st.sampled_from(ADVERSARIAL),
    st.sampled_from(["--password ", "=", '"', "'", ":", "@", "/", " ", ">", "<", "[", "]", ";", "\n"]),
    st.text(st.characters(), max_size=6),
)
ANYTHING = st.lists(FRAGMENTS, max_size=8).map("".join)


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(ANYTHING)
def test_redacting_twice_changes_nothing(text: str) -> None:
    once = redact(text)
    assert redact(once.text) == Redacted(once.text, ())


@settings(max_examples=300, deadline=None)
@given(ANYTHING)
def test_each_label_has_its_mask_in_the_text(text: str) -> None:
    result = redact(text)
    position = 0
    for label in result.masked:
        position = result.text.index(f"[masked:{label}]", position) + 1


@settings(max_examples=500, deadline=None)
@given(
    st.text(st.characters(), max_size=40),
    st.sampled_from([token for _, token in EVERY_TOKEN]),
    st.text(st.characters(), max_size=40),
    st.sampled_from([" ", "\n", '"', "(", ",", "=", "\t", "é"]),
)
def test_a_planted_token_never_survives(before: str, token: str, after: str, edge: str) -> None:
    assert token not in redact(f"{before}{edge}{token}{edge}{after}").text


@settings(max_examples=300, deadline=None)
@given(
    st.text(st.characters(), max_size=40),
    st.from_regex(r"[A-Za-z]{4}[0-9]{3}[!%^*][A-Za-z0-9]{4,20}", fullmatch=True),
    st.sampled_from(['password = "{}"', "DB_PASSWORD={}", '"client_secret": "{}"', "https://bob:{}@host/"]),
)
def test_a_planted_password_never_survives(before: str, secret: str, frame: str) -> None:
    assert secret not in redact(f"{before}\n{frame.format(secret)}\nafter").text


@pytest.mark.slow
@each_row("unit", UNITS)
def test_time_grows_no_faster_than_the_text(unit: str) -> None:
    assert_linear(lambda size: unit * (size // len(unit)))


@pytest.mark.slow
@each_row("unit", ADVERSARIAL_VALUES)
@each_row("frame", ['token="a{}!"', 'password="{}?!"', "https://u:{}", "<private {}", "sk-ant-{}", "password: {}"])
def test_time_grows_no_faster_than_one_value(frame: str, unit: str) -> None:
    assert_linear(lambda size: frame.format(unit * (size // len(unit))))


def assert_linear(make: Callable[[int], str]) -> None:
    """Four times the text takes far less than the sixteen times of quadratic growth."""
    small, large = make(8_000), make(32_000)
    redact(small)
    assert cost(large) * len(large) < 10 * cost(small) * len(small) + 4e6


def test_no_search_sees_more_than_a_part_of_a_long_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other threads run between two searches, and all searches together cost little more than one."""
    seen: list[int] = []
    search = redact_module._search
    monkeypatch.setattr(redact_module, "_search", lambda text: seen.append(len(text)) or search(text))
    for text in (plain_text(300_000), "a" * 300_000, 'password="' * 30_000):
        seen.clear()
        redact(text)
        assert max(seen) <= 18_000
        assert sum(seen) <= 3 * len(text)


@each_row("separator", ["\n", " ", ";"])
def test_a_secret_at_the_border_of_two_parts_is_masked(separator: str) -> None:
    token = TOKENS["github-token"][0]
    for place in range(15_900, 16_060, 7):
        filler = ("x" * 9 + separator) * 2_000
        text = filler[: place - place % 10] + "x" * (place % 10) + separator
        assert token not in redact(f"{text}{token}{separator}{filler}").text
        assert "Tr0ub4dor&3" not in redact(f"{text}password='Tr0ub4dor&3'{separator}{filler}").text


def test_a_secret_longer_than_a_part_is_masked_whole() -> None:
    token = "sk-" + "ant-" + "a1B2c3D4e5" * 5_000
    assert redact(f"use {token} now").text == "use [masked:anthropic-key] now"


def test_only_one_thread_masks_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    inside = 0
    most = 0
    prepare, finders = redact_module._finders()

    def entered(text: str) -> object:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        threading.Event().wait(0.02)  # Long enough for the other threads to get here, if they could.
        inside -= 1
        return prepare(text)

    monkeypatch.setattr(redact_module, "_finders", lambda: (entered, finders))
    threads = [threading.Thread(target=redact, args=("some text",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
