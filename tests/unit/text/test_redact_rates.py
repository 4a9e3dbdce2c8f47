"""Masking finds at least 90 % of varied secrets, and changes at most 2 % of harmless texts that resemble them."""

import json

import pytest
from bench.masking import main, rates, unseen_samples
from bench.masking_samples import FIRST_HARMLESS, FIRST_SECRETS, SECOND_HARMLESS, SECOND_SECRETS, samples

from invented_secrets import hexadecimal, mixed
from satchel.text.redact import redact
from tables import each_row

# What masking once missed: the name of the form, the text before the secret, the secret, the text after it.
ONCE_MISSED = [
    ("cookie", "Cookie: theme=dark; sessionid=", mixed(32), "; lang=en"),
    ("set-cookie", "Set-Cookie: connect.sid=", "s%3A" + mixed(32) + "." + mixed(43), "; Path=/; HttpOnly"),
    ("kubeconfig", "    client-key-data: ", "LS0tLS1CRUdJTi" + mixed(80), "\n"),
    ("docker auth", '{"auths": {"ghcr.io": {"auth": "', mixed(40) + "==", '"}}}'),
    ("docker token", "docker login -p ", "dckr" + "_pat_" + mixed(27), ""),
    ("tailscale", "tailscale up --authkey=", "tskey" + "-auth-" + mixed(12) + "-" + mixed(32), ""),
    ("circleci", "circleci ", "CCIPAT" + "_" + mixed(22) + "_" + hexadecimal(40), ""),
    ("buildkite", "buildkite ", "bkua" + "_" + hexadecimal(40), ""),
    ("figma", "figma ", "figd" + "_" + mixed(40), ""),
    ("trello", "trello ", "ATTA" + hexadecimal(72), ""),
    ("dropbox", "dropbox ", "sl" + "." + mixed(135), ""),
    ("square", "square ", "EAAA" + mixed(60), ""),
    ("braintree", "", "access_token" + "$production$" + "a1b2c3d4e5f6g7h8" + "$" + hexadecimal(32), ""),
    ("cloudflare origin key", "key ", "v1.0" + "-" + hexadecimal(24) + "-" + hexadecimal(146), ""),
    ("mailchimp", "mailchimp ", hexadecimal(32) + "-us21", ""),
    (".pgpass", "db.acme.io:5432:app:bob:", "s3cr3tPg", "\n"),
    ("mysql -p", "mysql -u root -p", "Geheim99", " shop"),
    ("sshpass", "sshpass -p '", "s5hP4ss", "' ssh root@host"),
    ("ansible", "ansible_become_pass: ", "Adm1nR00t", "\n"),
    ("xml", '<add key="ApiSecret" value="', mixed(24), '" />'),
    ("german", "Das Passwort für den Server lautet ", "Gartenzaun7", "."),
    ("german kennwort", "Kennwort: ", "Winter#2023", ""),
    ("french", "Le mot de passe est ", "Baguette75", " !"),
    ("spanish", "La contraseña es ", "Gato.Negro9", ""),
    ("japanese", "パスワードは「", "Sakura2024", "」です"),
    ("login pair", "login: admin / ", "Welkom01", ""),
    ("short bearer", "Authorization: Bearer ", "abc123", ""),
    ("card", "pay with ", "4539 1488 0343 6467", " now"),
    ("seed phrase", "", "ozone drill grab fiber curtain grace pudding thank cruise elder eight picnic", ""),
]


def test_the_rates_hold_on_samples_that_the_rules_were_not_written_with() -> None:
    result = rates(unseen_samples())
    assert (result.secrets, result.harmless) == (189, 138)
    assert result.found >= 0.9, [sample.name for sample in result.missed]
    assert result.alarms <= 0.02, [sample.name for sample in result.false_alarms]


@pytest.mark.parametrize("rows", [FIRST_SECRETS, SECOND_SECRETS], ids=["first half", "second half"])
def test_at_least_nine_of_ten_secrets_are_found(rows: tuple[tuple[str, str], ...]) -> None:
    result = rates(samples(rows))
    assert result.secrets >= 120
    assert result.found >= 0.9, [sample.name for sample in result.missed]


@pytest.mark.parametrize("rows", [FIRST_HARMLESS, SECOND_HARMLESS], ids=["first half", "second half"])
def test_at_most_two_of_a_hundred_harmless_texts_are_changed(rows: tuple[tuple[str, str], ...]) -> None:
    result = rates(samples(rows))
    assert result.harmless >= 120
    assert result.alarms <= 0.02, [sample.name for sample in result.false_alarms]


@each_row(("form", "before", "secret", "after"), ONCE_MISSED)
def test_secrets_of_every_form_are_masked(form: str, before: str, secret: str, after: str) -> None:
    masked = redact(before + secret + after).text
    assert secret not in masked, form
    assert masked.startswith(before), form
    assert masked.endswith(after), form


@each_row("text", ["n.apiKey=r.apiKey||null", '"password": "Passwort"', '{"password": "Mot de passe"}'])
def test_minified_code_and_translations_are_left_alone(text: str) -> None:
    assert redact(text).text == text


def test_the_benchmark_reads_a_set_and_names_what_was_missed(tmp_path, capsys) -> None:
    rows = [
        {"name": "one", "text": "password='Tr0ub4dor&3'", "secret": "Tr0ub4dor&3"},
        {"name": "two", "text": "the word is swordfish", "secret": "swordfish"},
        {"name": "three", "text": "nothing here", "secret": None},
    ]
    file = tmp_path / "set.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert main(["--set", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "1 of 2 secrets found (50.0%), 0 false alarms in 1 harmless texts (0.0%)" in printed
    assert "missed       two" in printed
    file.write_text("{}\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="line 1"):
        main(["--set", str(file)])
