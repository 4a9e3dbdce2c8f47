"""Access tokens: what is stored, who gets access, and concurrent changes to the token file."""

import errno
import hmac
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest

from satchel.errors import InputError
from satchel.model.memory import utc_now
from satchel.server.http import access
from satchel.server.http.access import (
    Caller,
    Keyring,
    Token,
    UnreadableTokensError,
    add_token,
    new_token,
    parse_token,
    read_tokens,
    revoke_token,
    secret_matches,
)

AT_ONCE = 6
EACH = 5


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens.jsonl"


class Seconds:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self._now = 1_000.0

    def now(self) -> float:
        return self._now

    def pass_(self, seconds: float) -> None:
        self._now += seconds


def no_descriptors(*given: object) -> NoReturn:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def bearer(token: str) -> str:
    return f"Bearer {token}"


def test_a_token_is_known_by_its_hash_alone(file: Path):
    token, kept = new_token(access="write", org="acme", project="harbor")
    add_token(file, kept)
    identifier, secret = parse_token(token)
    assert identifier == kept.id
    assert secret not in file.read_text()
    assert Keyring(file).caller(bearer(token)) == Caller(kept.id, "write", "acme", "harbor")
    assert new_token(access="write", org="acme")[0] != token


@pytest.mark.parametrize(
    "change",
    [
        lambda token: token[:-1],
        lambda token: token + "A",
        lambda token: token.upper(),
        lambda token: token.replace("_", "-"),
        lambda token: token[:-43] + "A" * 43,
        lambda token: "satchel_0000000000_" + token[-43:],
        lambda token: "",
        lambda token: f"{token} {token}",
    ],
)
def test_what_is_not_the_token_lets_nobody_in(file: Path, change):
    token, kept = new_token(access="read", org="acme")
    add_token(file, kept)
    keyring = Keyring(file)
    assert keyring.caller(bearer(change(token))) is None
    assert keyring.caller(f"Basic {token}") is None
    assert keyring.caller(f"bearer  {token} ") is not None


def test_an_unknown_token_is_compared_like_a_known_one(monkeypatch: pytest.MonkeyPatch):
    compared: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest
    monkeypatch.setattr(access.hmac, "compare_digest", lambda *pair: compared.append(pair) or real(*pair))
    token, kept = new_token(access="read", org="acme")
    assert secret_matches(parse_token(token)[1], kept)
    assert not secret_matches(parse_token(token)[1], None)
    assert not secret_matches("", None)
    assert [(len(given), len(held)) for given, held in compared] == [(32, 32)] * 3


def test_a_token_that_has_expired_lets_nobody_in(file: Path):
    gone, kept = new_token(access="read", org="acme", expires_at=utc_now() - timedelta(seconds=1))
    add_token(file, kept)
    good, kept = new_token(access="read", org="acme", expires_at=utc_now() + timedelta(hours=1))
    add_token(file, kept)
    keyring = Keyring(file)
    assert keyring.caller(bearer(gone)) is None
    assert keyring.caller(bearer(good)) is not None


def test_a_change_of_the_file_is_noticed_and_told(file: Path):
    first, kept = new_token(access="read", org="acme")
    add_token(file, kept)
    told: list[frozenset[str]] = []
    keyring = Keyring(file, changed=told.append)
    second, other = new_token(access="read", org="acme")
    add_token(file, other)
    assert keyring.caller(bearer(second)) is not None
    revoke_token(file, kept.id)
    assert keyring.caller(bearer(first)) is None
    assert told == [frozenset({kept.id, other.id}), frozenset({other.id})]


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"\xff",
        b"[]",
        b'{"id": "a"}',
        b'{"id":"a","hash":"00","access":"read","org":"acme","created_at":"2026-01-01T00:00:00Z"}',
        b'{"id":"a","hash":"zz","access":"read","org":"acme","created_at":"2026-01-01T00:00:00Z"}',
        b'{"id":"a","hash":"%b","access":"read","created_at":"2026-01-01T00:00:00Z"}' % (b"00" * 32),
        b'{"id":"a","hash":"%b","access":"metrics","org":"x","created_at":"2026-01-01T00:00:00Z"}' % (b"00" * 32),
        b'{"id":"a","hash":"%b","access":"root","org":"x","created_at":"2026-01-01T00:00:00Z"}' % (b"00" * 32),
        b'{"id":"a","hash":"%b","access":"read","org":"x","created_at":"2026-01-01T00:00:00Z",'
        b'"expires_at":"2027-01-01T00:00:00"}' % (b"00" * 32),
    ],
)
def test_a_line_that_is_no_token_is_named(file: Path, line: bytes):
    add_token(file, new_token(access="read", org="acme")[1])
    with open(file, "ab") as more:
        more.write(line + b"\n")
    with pytest.raises(InputError, match=r"line 2 of .* is not a token"):
        read_tokens(file)


def test_a_time_without_a_zone_is_said_to_lack_it(file: Path):
    add_token(file, new_token(access="read", org="acme", expires_at=utc_now())[1])
    file.write_bytes(file.read_bytes().replace(b'Z"}', b'"}'))
    with pytest.raises(InputError, match=r"with a timezone component - at `\$\.expires_at`"):
        read_tokens(file)


def test_a_file_that_is_gone_holds_no_token(file: Path, caplog: pytest.LogCaptureFixture):
    token, kept = new_token(access="read", org="acme")
    add_token(file, kept)
    told: list[frozenset[str]] = []
    keyring = Keyring(file, changed=told.append)
    line = file.read_bytes()
    file.unlink()
    assert [keyring.caller(bearer(token)) for _ in range(3)] == [None] * 3
    assert told == [frozenset()]
    assert caplog.text.count("all tokens are rejected") == 1
    add_token(file, kept)
    assert keyring.caller(bearer(token)) is not None
    file.write_bytes(line[:-9])
    assert keyring.caller(bearer(token)) is not None
    assert caplog.text.count("keeping the known tokens") == 1


def test_a_file_that_could_not_be_read_is_read_again(file: Path, monkeypatch: pytest.MonkeyPatch):
    token, kept = new_token(access="read", org="acme")
    add_token(file, kept)
    keyring = Keyring(file, clock=(seconds := Seconds()).now)
    revoke_token(file, kept.id)
    with monkeypatch.context() as patched:
        patched.setattr(access, "open", no_descriptors, raising=False)
        assert keyring.caller(bearer(token)) is not None
        assert keyring.unreadable_seconds > 0
    # The file has not changed since; only the reason why it could not be read is gone.
    seconds.pass_(access.RETRY_SECONDS)
    assert keyring.caller(bearer(token)) is None
    assert keyring.unreadable_seconds == 0


def test_all_tokens_are_refused_when_the_file_is_unreadable_for_too_long(
    file: Path, caplog: pytest.LogCaptureFixture
):
    token, kept = new_token(access="read", org="acme")
    add_token(file, kept)
    told: list[frozenset[str]] = []
    keyring = Keyring(file, patience=60, changed=told.append, clock=(seconds := Seconds()).now)
    content = file.read_bytes()
    file.unlink()
    file.mkdir()
    assert keyring.caller(bearer(token)) is not None
    seconds.pass_(59)
    assert keyring.caller(bearer(token)) is not None
    seconds.pass_(2)
    for _ in range(2):
        with pytest.raises(UnreadableTokensError, match="for more than 60 s"):
            keyring.caller(bearer(token))
    assert told == [frozenset()]
    assert "ALL TOKENS ARE REFUSED" in caplog.text
    file.rmdir()
    file.write_bytes(content)
    file.chmod(0o600)
    assert keyring.caller(bearer(token)) is not None
    assert told == [frozenset(), frozenset({kept.id})]


def test_a_file_that_others_may_write_is_trusted_for_the_stated_time_only(file: Path):
    token, kept = new_token(access="read", org="acme")
    add_token(file, kept)
    keyring = Keyring(file, patience=60, clock=(seconds := Seconds()).now)
    file.chmod(0o666)
    assert keyring.caller(bearer(token)) is not None
    seconds.pass_(61)
    with pytest.raises(UnreadableTokensError):
        keyring.caller(bearer(token))


def test_a_replacement_of_the_same_size_and_time_is_noticed(file: Path):
    """Also one in the same tick of the kernel's clock as the one before."""
    first, kept = new_token(access="read", org="acme")
    second, other = new_token(access="read", org="acme")
    add_token(file, kept)
    keyring = Keyring(file)
    for token, stored, gone in [(second, other, first), (first, kept, second)] * 5:
        before = file.stat()
        content = msgspec.json.encode(stored) + b"\n"
        assert len(content) == before.st_size
        with open(file, "r+b") as same:
            same.write(content)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert file.stat().st_mtime_ns == before.st_mtime_ns
        assert keyring.caller(bearer(token)) is not None
        assert keyring.caller(bearer(gone)) is None


def test_two_of_the_same_id_are_refused(file: Path):
    kept = new_token(access="read", org="acme")[1]
    add_token(file, kept)
    add_token(file, kept)
    with pytest.raises(InputError, match="the same id"):
        read_tokens(file)


def test_processes_that_change_the_file_at_once_lose_nothing(file: Path):
    doomed = [new_token(access="read", org="doomed")[1] for _ in range(AT_ONCE)]
    for token in doomed:
        add_token(file, token)
    program = (
        "import sys; from pathlib import Path; from satchel.server.http.access import new_token; "
        "from satchel.server.http.access import add_token, revoke_token; file = Path(sys.argv[1])\n"
        f"for _ in range({EACH}): add_token(file, new_token(access='write', org=sys.argv[2])[1])\n"
        "revoke_token(file, sys.argv[3])"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(file), f"org{number}", token.id])
        for number, token in enumerate(doomed)
    ]
    assert [process.wait(60) for process in running] == [0] * AT_ONCE
    orgs = [token.org for token in read_tokens(file)]
    assert sorted(orgs) == sorted(f"org{number}" for number in range(AT_ONCE) for _ in range(EACH))
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_token_says_nothing_of_itself_when_it_is_printed():
    token, kept = new_token(access="read", org="acme")
    assert isinstance(kept, Token)
    assert parse_token(token)[1] not in repr(kept)
