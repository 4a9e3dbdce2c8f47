"""Access tokens of an OAuth issuer: which are accepted, what they allow, and how the issuer's keys are kept."""

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Iterator
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from oauth_issuer import Issuer, running_issuer
from satchel.errors import InputError
from satchel.server.http import oauth
from satchel.server.http.access import Caller
from satchel.server.http.oauth import OAuth, OAuthSettings
from satchel.server.http.problems import RefusedError
from tables import each_row

RESOURCE = "https://memory.example/mcp"


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with running_issuer() as running:
        yield running


class Checked:
    """A service's check of tokens, with a clock that the test advances."""

    def __init__(self, issuer: str, **settings: Any) -> None:
        self.now = 1_000.0
        self._oauth = OAuth(OAuthSettings(issuer=issuer, resource=RESOURCE, **settings), clock=lambda: self.now)

    def caller(self, *tokens: str) -> Caller:
        return self.callers(*tokens)[-1]

    def callers(self, *tokens: str) -> list[Caller]:
        async def ask() -> list[Caller]:
            found = [await self._oauth.caller(token) for token in tokens]
            # A fetch in the background would end with the loop.
            if (task := self._oauth._keys._fetching) is not None:
                await task
            return found

        return asyncio.run(ask())

    def refusal(self, token: str) -> RefusedError:
        with pytest.raises(RefusedError) as refused:
            self.caller(token)
        return refused.value


def unsigned(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    parts = (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "EdDSA"])
def test_a_token_of_the_issuer_opens_what_its_claims_say(issuer: Issuer, algorithm: Any):
    issuer.add_key("two", algorithm)
    checked = Checked(issuer.url, project_claim="team", user_claim="sub")
    caller = checked.caller(issuer.token("two", aud=RESOURCE, team="harbor"))
    assert caller[1:] == ("write", "acme", "harbor", "ana")
    assert caller.is_oauth
    assert checked.caller(issuer.token(aud=["other", f"{RESOURCE}/"], team="harbor", scp=["x"])) == caller
    reading = issuer.token(aud=RESOURCE, team="harbor", scp=["satchel:read"], without=("scope",))
    assert checked.caller(reading).access == "read"


def test_callers_differ_by_subject_and_by_client(issuer: Issuer):
    tokens = (
        issuer.token(aud=RESOURCE),
        issuer.token(aud=RESOURCE, sub="bo"),
        issuer.token(aud=RESOURCE, client_id="editor"),
    )
    assert len({caller.id for caller in Checked(issuer.url).callers(*tokens)}) == 3


@each_row(
    ("claims", "words"),
    [
        ({"aud": "https://other.example/mcp"}, "issued for another service"),
        ({"aud": RESOURCE + "2"}, "issued for another service"),
        ({"aud": []}, "needs the claims"),
        ({"aud": [RESOURCE + "2"]}, "issued for another service"),
        ({"without": ("aud",)}, "needs the claims exp, iss, aud and sub"),
        ({"without": ("exp",)}, "needs the claims"),
        ({"without": ("iss",)}, "needs the claims"),
        ({"without": ("sub",)}, "needs the claims"),
        ({"iss": "https://evil.example"}, "of another issuer"),
        ({"exp": 1_000}, "has expired"),
        ({"exp": "soon"}, "not valid"),
        ({"nbf": 32_503_680_000}, "not valid yet"),
        ({"headers": {"kid": "nobody"}}, "no such key"),
        ({"headers": {"crit": ["x"], "x": 1}}, "nor a JWT"),
        ({"padding": "x" * 20_000}, "too long"),
    ],
)
def test_a_token_that_is_not_for_this_service_now_is_refused(claims: dict[str, Any], words: str):
    with running_issuer() as issuer:
        refused = Checked(issuer.url).refusal(issuer.token(**{"aud": RESOURCE} | claims))
    assert refused.status == 401
    assert words in str(refused)
    challenge = refused.headers["WWW-Authenticate"]
    assert 'error="invalid_token"' in challenge
    assert 'resource_metadata="https://memory.example/.well-known/oauth-protected-resource/mcp"' in challenge, (
        challenge
    )


def test_a_token_that_expired_just_now_is_accepted_because_clocks_differ(issuer: Issuer):
    token = issuer.token(aud=RESOURCE, exp=int(time.time()) - oauth.LEEWAY_SECONDS // 2)
    assert Checked(issuer.url).caller(token).org == "acme"


def test_a_token_without_a_signature_by_the_issuers_key_is_refused(issuer: Issuer):
    checked, claims = Checked(issuer.url), issuer.claims(aud=RESOURCE)
    genuine = issuer.token(aud=RESOURCE)
    head, body, signature = genuine.split(".")
    other = base64.urlsafe_b64encode(json.dumps(claims | {"org": "globex"}).encode()).rstrip(b"=").decode()
    public = issuer.keys["one"][1].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    # PyJWT refuses to sign with a public key, so the attack is built by hand.
    start = unsigned({"alg": "HS256", "kid": "one"}, claims).rpartition(".")[0]
    forged = hmac.new(public, start.encode(), hashlib.sha256).digest()
    with running_issuer() as stranger:
        foreign = jwt.encode(claims, stranger.keys["one"][1], "RS256", {"kid": "one"})
    attempts = {
        "none": unsigned({"alg": "none", "kid": "one"}, claims),
        "None": unsigned({"alg": "None", "kid": "one"}, claims),
        "HS256 with the public key": unsigned({"alg": "HS256", "kid": "one"}, claims, forged),
        "another key type": unsigned({"alg": "ES256", "kid": "one"}, claims, b"0" * 64),
        "a changed body": f"{head}.{other}.{signature}",
        "no signature": f"{head}.{body}.",
        "the key of another": foreign,
        "no token": "eyJhbGciOiJub25lIn0",
        "blank": "",
        "a list": unsigned({"alg": "RS256", "kid": "one"}, [claims], b"x"),  # type: ignore[arg-type]
        "a kid that is no text": unsigned({"alg": "RS256", "kid": 1}, claims, b"x"),
        "an alg that is no text": unsigned({"alg": ["RS256"], "kid": "one"}, claims, b"x"),
        "a deep header": base64.urlsafe_b64encode(b"[" * 9_000).decode() + ".e30.e30",
    }
    for name, attempt in attempts.items():
        assert checked.refusal(attempt).status == 401, name
    assert checked.caller(genuine).org == "acme"


@each_row(
    ("claims", "settings", "words"),
    [
        ({"without": ("org",)}, {}, "no usable claim 'org'"),
        ({"org": ""}, {}, "no usable claim 'org'"),
        ({"org": 7}, {}, "no usable claim 'org'"),
        ({"org": ["a", "b"]}, {}, "no usable claim 'org'"),
        ({}, {"org_claim": "https://acme.example/org"}, "https://acme.example/org"),
        ({}, {"project_claim": "project"}, "no usable claim 'project'"),
        ({}, {"user_claim": "email"}, "no usable claim 'email'"),
        ({"scope": "openid"}, {}, "needs the scope satchel:read"),
        ({"without": ("scope",)}, {}, "needs the scope satchel:read"),
        ({"scope": "satchel:reads"}, {}, "needs the scope satchel:read"),
    ],
)
def test_a_token_that_names_no_place_or_no_scope_is_refused(claims: Any, settings: Any, words: str):
    with running_issuer() as issuer:
        refused = Checked(issuer.url, **settings).refusal(issuer.token(**{"aud": RESOURCE} | claims))
    assert refused.status == 403
    assert words in str(refused)
    if "scope" in words:
        assert 'error="insufficient_scope"' in refused.headers["WWW-Authenticate"]
        assert 'scope="satchel:read satchel:write"' in refused.headers["WWW-Authenticate"]


def test_other_audiences_and_scopes_can_be_set(issuer: Issuer):
    checked = Checked(issuer.url, audiences=("api://satchel",), write_scope="memory.all")
    assert checked.caller(issuer.token(aud="api://satchel", scope="memory.all")).access == "write"
    assert checked.refusal(issuer.token(aud=RESOURCE, scope="memory.all")).status == 401


# The issuer's keys


def test_a_new_key_is_fetched_when_a_token_names_it_and_an_old_one_is_dropped(issuer: Issuer):
    checked = Checked(issuer.url)
    old = issuer.token(aud=RESOURCE)
    assert checked.caller(old).org == "acme"
    issuer.keys.clear()
    issuer.add_key("two", "ES256")
    checked.now += oauth.RETRY_SECONDS
    assert checked.caller(issuer.token("two", aud=RESOURCE)).org == "acme"
    assert checked.refusal(old).status == 401


def test_a_flood_of_unknown_keys_fetches_once_in_ten_seconds(issuer: Issuer):
    checked = Checked(issuer.url)
    assert checked.caller(issuer.token(aud=RESOURCE)).org == "acme"
    assert issuer.fetches == 1
    checked.now += oauth.RETRY_SECONDS

    async def flood() -> list[Any]:
        tokens = [issuer.token(aud=RESOURCE, headers={"kid": f"unknown{number}"}) for number in range(50)]
        return await asyncio.gather(*map(checked._oauth.caller, tokens), return_exceptions=True)

    refused = asyncio.run(flood())
    assert {error.status for error in refused} == {401}
    assert issuer.fetches == 2


def test_keys_are_fetched_again_after_a_while_without_a_request_that_waits(issuer: Issuer):
    checked = Checked(issuer.url)
    token = issuer.token(aud=RESOURCE)
    checked.caller(token)
    issuer.keys.clear()
    issuer.add_key("two")
    checked.now += oauth.FRESH_SECONDS + 1

    async def used() -> int:
        # The known key is used at once; the next request finds it gone.
        await checked._oauth.caller(token)
        task = checked._oauth._keys._fetching
        assert task is not None
        await task
        try:
            await checked._oauth.caller(token)
        except RefusedError as error:
            return error.status
        return 200

    assert asyncio.run(used()) == 401
    assert issuer.fetches == 2


def test_known_keys_stay_in_use_while_the_issuer_is_down_but_not_for_ever():
    with running_issuer() as issuer:
        checked, token = Checked(issuer.url), issuer.token(aud=RESOURCE)
        assert checked.caller(token).org == "acme"
    checked.now += oauth.STALE_SECONDS - 1
    assert checked.caller(token).org == "acme"
    checked.now += 2
    assert checked.refusal(token).kind == "issuer-unreachable"


def test_without_any_key_a_token_gets_503_until_the_issuer_is_back(caplog: pytest.LogCaptureFixture):
    with running_issuer() as issuer:
        port, token = int(issuer.url.rpartition(":")[2]), issuer.token(aud=RESOURCE)
    checked = Checked(issuer.url)
    refused = checked.refusal(token)
    assert (refused.status, refused.kind) == (503, "issuer-unreachable")
    assert refused.headers["Retry-After"] == "10"
    assert f"the keys of {issuer.url} cannot be fetched" in caplog.text
    with running_issuer(port=port, issuer=issuer):
        assert checked.refusal(token).status == 503
        checked.now += oauth.RETRY_SECONDS
        assert checked.caller(token).org == "acme"


@each_row(
    ("paths", "words"),
    [
        ({"/keys": b"no json"}, "malformed"),
        ({"/keys": []}, "not a JSON object"),
        ({"/keys": {"keys": []}}, "no usable key"),
        ({"/keys": {"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "one"}]}}, "no usable key"),
        ({"/keys": {"keys": "x"}}, "not a key set"),
        ({"/keys": b'{"keys": [' + b" " * oauth.MOST_BYTES + b"]}"}, "larger than"),
        ({"/keys": None}, "404"),
        ({"/.well-known/oauth-authorization-server": {"issuer": "https://evil.example"}}, "evil.example"),
        ({"/.well-known/oauth-authorization-server": None}, "404"),
    ],
)
def test_keys_that_cannot_be_used_are_complained_of(paths: dict[str, Any], words: str):
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("satchel.server.http.oauth").addHandler(handler)
    try:
        with running_issuer() as issuer:
            issuer.paths = paths
            assert Checked(issuer.url).refusal(issuer.token(aud=RESOURCE)).status == 503
    finally:
        logging.getLogger("satchel.server.http.oauth").removeHandler(handler)
    assert words in " ".join(said)


def test_keys_are_found_by_openid_discovery_or_at_a_given_address(issuer: Issuer):
    usual = issuer.document("/.well-known/oauth-authorization-server")
    issuer.paths["/.well-known/oauth-authorization-server"] = None
    token = issuer.token(aud=RESOURCE)
    assert Checked(issuer.url, jwks_url=f"{issuer.url}/keys").caller(token).org == "acme"
    issuer.paths["/.well-known/openid-configuration"] = usual
    assert Checked(issuer.url).caller(token).org == "acme"


@each_row(
    ("settings", "words"),
    [
        ({"issuer": "login.example"}, "--oauth-issuer 'login.example' is not a URL"),
        ({"issuer": "http://login.example"}, "must start with https://"),
        ({"issuer": "https://a:b@login.example"}, "is not a URL"),
        ({"resource": "https://memory.example/mcp#x"}, "--oauth-resource"),
        ({"resource": "ftp://memory.example"}, "--oauth-resource"),
        ({"jwks_url": "http://10.0.0.1/keys"}, "--oauth-jwks"),
        ({"issuer": "https://[bad"}, "is not a URL"),
        ({"read_scope": "two words"}, "--oauth-read-scope 'two words'"),
        ({"write_scope": ""}, "--oauth-write-scope"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, str], words: str):
    with pytest.raises(InputError) as refused:
        OAuthSettings(**{"issuer": "https://login.example", "resource": RESOURCE} | settings)
    assert words in str(refused.value)
