"""The service with an OAuth issuer: the official client's OAuth code, refusals, and tokens of both kinds."""

import contextlib
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple

import anyio
import httpx2
import mcp
import pytest
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from mcp_pipe import HELLO, LONGEST_WAIT, request
from oauth_issuer import Issuer, running_issuer
from satchel.cli import app
from service_client import Served, token_in

ACCEPT = {"Accept": "application/json, text/event-stream"}
METADATA = "/.well-known/oauth-protected-resource"


class Pair(NamedTuple):
    service: Served
    issuer: Issuer

    @property
    def resource(self) -> str:
        return f"{self.service.url}/mcp"

    def token(self, **claims: Any) -> str:
        return self.issuer.token(**{"aud": "urn:satchel", "sub": "ana"} | claims)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """The service's port is not known beforehand, so the audience is a name."""
    with contextlib.ExitStack() as stack:
        issuer = stack.enter_context(running_issuer())
        folder = tmp_path_factory.mktemp("oauth")
        options = ("--oauth-issuer", issuer.url, "--oauth-resource", "http://127.0.0.1:9/mcp")
        named = ("--oauth-audience", "urn:satchel", "--oauth-project-claim", "project")
        service = stack.enter_context(Served(folder, *options, *named))
        issuer.grants |= {"project": "harbor"}
        yield Pair(service, issuer)


def test_tokens_of_the_issuer_and_of_the_file_work_side_by_side(pair: Pair):
    service, token = pair.service, pair.token()
    saved = service.done("POST", "/v1/memories", {"text": "Quinces ripen in October."}, token=token)
    assert (saved["scope"]["org"], saved["scope"]["project"]) == ("acme", "harbor")
    assert service.done("GET", f"/v1/memories/{saved['id']}")["id"] == saved["id"]
    other = pair.token(org="globex")
    assert service.ask("GET", f"/v1/memories/{saved['id']}", token=other).status == 404
    assert service.ask("GET", "/v1/stats?project=thesis", token=token).status == 403
    assert service.ask("GET", "/v1/stats", token=token_in(service.tokens, "acme", "read")).status == 200


def test_who_has_no_valid_token_is_led_to_the_metadata(pair: Pair):
    bare = pair.service.ask("POST", "/mcp", {}, token=None).headers["WWW-Authenticate"]
    assert bare == (
        'Bearer realm="satchel", scope="satchel:read satchel:write", '
        f'resource_metadata="http://127.0.0.1:9{METADATA}/mcp"'
    )
    expired = pair.service.ask("GET", "/v1/stats", token=pair.token(exp=1))
    assert expired.status == 401
    assert 'error="invalid_token", error_description="the token has expired"' in expired.headers["WWW-Authenticate"]
    unknown = pair.service.ask("GET", "/v1/stats", token="satchel_0000000000_" + "A" * 43)
    assert unknown.status == 401


def test_a_token_for_reading_cannot_write(pair: Pair):
    token = pair.token(scope="satchel:read")
    assert pair.service.ask("GET", "/v1/stats", token=token).status == 200
    refused = pair.service.ask("POST", "/v1/memories", {"text": "x"}, token=token)
    assert refused.status == 403
    assert 'error="insufficient_scope"' in refused.headers["WWW-Authenticate"]
    assert "satchel:write" in refused.value["detail"]
    assert pair.service.ask("GET", "/metrics", token=pair.token()).status == 403
    without = pair.service.ask("GET", "/v1/stats", token=pair.issuer.token(aud="urn:satchel", without=("org",)))
    assert (without.status, without.value["type"]) == (403, "urn:satchel:problem:not-allowed")


def test_the_metadata_names_the_issuer_and_needs_no_token(pair: Pair):
    for path in (METADATA, f"{METADATA}/mcp"):
        found = pair.service.ask("GET", path, token=None)
        assert found.status == 200
        assert found.value == {
            "resource": "http://127.0.0.1:9/mcp",
            "authorization_servers": [pair.issuer.url],
            "scopes_supported": ["satchel:read", "satchel:write"],
            "bearer_methods_supported": ["header"],
            "resource_name": "Satchel",
        }
    assert pair.service.ask("GET", f"{METADATA}/other", token=None).status == 404
    assert pair.service.ask("POST", METADATA, token=None).status == 405


def test_a_change_of_the_token_file_leaves_sessions_of_the_issuers_callers(pair: Pair):
    token = pair.token()
    begun = pair.service.ask("POST", "/mcp", request(1, "initialize", HELLO), headers=ACCEPT, token=token)
    carried = ACCEPT | {"Mcp-Session-Id": begun.headers["Mcp-Session-Id"]}
    token_in(pair.service.tokens, "acme", "read")
    pair.service.done("GET", "/v1/stats")
    # A new access token of the same client continues the session; one of another person does not.
    listing = request(2, "tools/list", {})
    assert pair.service.ask("POST", "/mcp", listing, headers=carried, token=pair.token()).status == 200
    assert pair.service.ask("POST", "/mcp", listing, headers=carried, token=pair.token(sub="bo")).status == 404


class Kept:
    """Where a client keeps its tokens."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        raise AssertionError("this client is registered already")


def test_the_official_client_finds_the_issuer_and_gets_a_token_by_itself(tmp_path):
    """The client knows only the URL of the service, as the specification intends."""
    with running_issuer() as issuer, contextlib.ExitStack() as stack:
        # Reserve a port for the service, whose public URL must be known before it starts.
        with socket.create_server(("127.0.0.1", 0)) as reserved:
            port = reserved.getsockname()[1]
        resource = f"http://127.0.0.1:{port}/mcp"
        options = ("--oauth-issuer", issuer.url, "--oauth-resource", resource, "--http", f"127.0.0.1:{port}")
        service = stack.enter_context(Served(tmp_path, *options, guarded=False))
        assert service.url == f"http://127.0.0.1:{port}"
        provider = ClientCredentialsOAuthProvider(
            resource, Kept(), "editor", "not-so-secret", issuer=issuer.url, scope="satchel:read satchel:write"
        )

        async def talk() -> tuple[str, str]:
            with anyio.fail_after(LONGEST_WAIT):
                async with (
                    httpx2.AsyncClient(auth=provider) as http,
                    mcp.Client(streamable_http_client(resource, http_client=http)) as client,
                ):
                    await client.call_tool("mem_save", {"text": "Quinces ripen in October."})
                    found = await client.call_tool("mem_search", {"query": "when do quinces ripen"})
                    return found.content[0].text, client.server_info.name

        text, name = anyio.run(talk)
        assert "October" in text
        assert name == "satchel"
        # The token was asked for this service (RFC 8707).
        assert [form["resource"] for form in issuer.asked] == [[resource]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--oauth-issuer", "https://login.example"], "--oauth-issuer needs --oauth-resource; give that too"),
        (["--oauth-org-claim", "tenant"], "--oauth-org-claim needs --oauth-issuer; give that too"),
        (
            ["--oauth-issuer", "http://login.example", "--oauth-resource", "https://m.example/mcp"],
            "must start with https://",
        ),
        (
            ["--oauth-issuer", "https://login.example", "--oauth-resource", "https://m.example/mcp", "--org", "x"],
            "--org and --oauth-issuer cannot be combined",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path, monkeypatch, capsys, options: list[str], words: str):
    monkeypatch.chdir(tmp_path)
    assert app.run(["serve", *options]) == 2
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
