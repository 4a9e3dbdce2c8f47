"""Which requests a connection serves, in the form of the protocol with a handshake and in the one without."""

import pytest

from satchel.server.handshake import MODERN_VERSIONS, PROTOCOL_VERSIONS
from satchel.server.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, Message, RequestError
from satchel.server.mcp.methods import mcp_methods
from satchel.server.mcp.protocol import UNSUPPORTED_VERSION, Connection

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
VERSION = "io.modelcontextprotocol/protocolVersion"
META = {VERSION: MODERN_VERSIONS[-1], "io.modelcontextprotocol/clientCapabilities": {}}


def never() -> None:
    raise AssertionError("no store is needed")


@pytest.fixture
def connection() -> Connection:
    return Connection(mcp_methods(["mem_save"], never))


def ask(connection: Connection, name: str, params: Message) -> Message:
    return connection.method(name, params).answer(params)


def refusal(connection: Connection, name: str, params: Message) -> RequestError:
    with pytest.raises(RequestError) as refused:
        ask(connection, name, params)
    return refused.value


def test_our_versions_are_those_of_the_official_sdk():
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

    assert (PROTOCOL_VERSIONS, MODERN_VERSIONS) == (HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS)


@pytest.mark.parametrize("version", [*PROTOCOL_VERSIONS, "1999-01-01"])
def test_a_known_version_is_agreed_on_and_else_the_newest(connection: Connection, version: str):
    agreed = ask(connection, "initialize", HELLO | {"protocolVersion": version})["protocolVersion"]
    assert agreed == (version if version in PROTOCOL_VERSIONS else PROTOCOL_VERSIONS[-1])


def test_only_a_ping_is_answered_before_the_handshake(connection: Connection):
    assert ask(connection, "ping", {}) == {}
    assert refusal(connection, "tools/list", {}).code == INVALID_PARAMS
    assert refusal(connection, "nonsense", {}).code == METHOD_NOT_FOUND
    ask(connection, "initialize", HELLO)
    assert [tool["name"] for tool in ask(connection, "tools/list", {})["tools"]] == ["mem_save"]


def test_a_connection_without_a_handshake_says_in_each_result_what_it_is(connection: Connection):
    found = ask(connection, "server/discover", {"_meta": META})
    assert (found["resultType"], found["supportedVersions"]) == ("complete", list(MODERN_VERSIONS))
    listed = ask(connection, "tools/list", {"_meta": META})
    assert listed["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "satchel"
    assert (listed["ttlMs"], listed["cacheScope"]) == (0, "private")


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({}, INVALID_PARAMS),
        ({"_meta": {VERSION: MODERN_VERSIONS[-1]}}, INVALID_PARAMS),
        ({"_meta": META | {VERSION: 5}}, INVALID_PARAMS),
        ({"_meta": META | {VERSION: "2030-01-01"}}, UNSUPPORTED_VERSION),
        ({"_meta": META | {"io.modelcontextprotocol/clientInfo": 5}}, INVALID_PARAMS),
    ],
)
def test_a_request_without_a_handshake_needs_its_version(connection: Connection, params: Message, code: int):
    ask(connection, "server/discover", {"_meta": META})
    assert refusal(connection, "tools/list", params).code == code


def test_a_connection_keeps_the_form_it_began_with(connection: Connection):
    ask(connection, "initialize", HELLO | {"_meta": META})
    assert refusal(connection, "tools/list", {"_meta": META}).code == INVALID_REQUEST
    other = Connection(mcp_methods([], never))
    ask(other, "server/discover", {"_meta": META})
    assert refusal(other, "initialize", HELLO).data == {"supported": ["2026-07-28"], "requested": "2025-06-18"}
    assert refusal(other, "ping", {"_meta": META}).code == METHOD_NOT_FOUND
