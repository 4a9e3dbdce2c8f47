"""The entry of a server at a URL, in the form of each client; no secret is ever part of it."""

import tomllib
from typing import Any

import pytest

from satchel.cli.clients.client import CLIENTS
from satchel.cli.clients.entry import ServerEntry, remote_entry
from satchel.errors import InputError
from tables import each_row

URL = "https://memory.example.test/mcp"
BEARER = "Authorization: Bearer ${SATCHEL_TOKEN}"
TIMEOUTS = {"startup_timeout_sec": 30, "tool_timeout_sec": 60}


@each_row(
    ("client", "fields"),
    [
        (
            "claude-code",
            {
                "type": "http",
                "url": URL,
                "headers": {"Authorization": "Bearer ${SATCHEL_TOKEN}"},
                "timeout": 60_000,
            },
        ),
        ("cursor", {"url": URL, "headers": {"Authorization": "Bearer ${env:SATCHEL_TOKEN}"}}),
        ("codex", {"url": URL, "bearer_token_env_var": "SATCHEL_TOKEN", **TIMEOUTS}),
        ("vscode", {"type": "http", "url": URL, "headers": {"Authorization": "Bearer ${env:SATCHEL_TOKEN}"}}),
        (
            "gemini",
            {"httpUrl": URL, "headers": {"Authorization": "Bearer ${SATCHEL_TOKEN}"}, "timeout": 60_000},
        ),
        (
            "opencode",
            {
                "type": "remote",
                "url": URL,
                "headers": {"Authorization": "Bearer {env:SATCHEL_TOKEN}"},
                "timeout": 30_000,
            },
        ),
        (
            "cline",
            {
                "type": "streamableHttp",
                "url": URL,
                "headers": {"Authorization": "Bearer ${env:SATCHEL_TOKEN}"},
                "timeout": 60,
            },
        ),
        (
            "continue",
            {
                "type": "streamable-http",
                "url": URL,
                "requestOptions": {"headers": {"Authorization": "Bearer ${{ secrets.SATCHEL_TOKEN }}"}},
                "connectionTimeout": 30_000,
            },
        ),
        ("windsurf", {"serverUrl": URL, "headers": {"Authorization": "Bearer ${env:SATCHEL_TOKEN}"}}),
    ],
)
def test_each_client_refers_to_a_variable_in_its_own_way(client: str, fields: dict[str, Any]):
    entry = remote_entry("far", URL, [BEARER])
    assert entry.variables == ["SATCHEL_TOKEN"]
    assert CLIENTS[client].fields(entry).all == fields


def test_codex_takes_whole_values_from_variables_and_others_as_they_are():
    headers = ["X-Key: ${KEY}", "X-Org: acme", "authorization: Bearer ${TOKEN}"]
    assert CLIENTS["codex"].fields(remote_entry("far", URL, headers)).values == {
        "url": URL,
        "env_http_headers": {"X-Key": "KEY"},
        "http_headers": {"X-Org": "acme"},
        "bearer_token_env_var": "TOKEN",
    }


@pytest.mark.parametrize("client", [name for name in CLIENTS if name not in ("claude-desktop", "continue", "zed")])
def test_headers_that_are_not_given_any_more_are_removed(client: str):
    form = CLIENTS[client]
    bare = form.fields(remote_entry("far", URL))
    for headers in ([BEARER], ["X-Key: ${KEY}", "X-Org: acme"]):
        text = form.with_entry("", form.fields(remote_entry("far", URL, headers))).text
        other = form.fields(remote_entry("far", URL, ["X-Other: ${KEY}"]))
        for entry in (other, bare, bare):
            edited = form.with_entry(text, entry)
            assert edited.what == ("unchanged" if text == edited.text else "updated")
            assert form.form.entry_value(edited.text, "far", key=form.key) == entry.all
            text = edited.text


def test_headers_in_a_table_of_their_own_are_removed_from_toml():
    text = f'[mcp_servers.far]\nurl = "{URL}"\n\n[mcp_servers.far.http_headers]\nX = "1" # mine\n\n[other]\na = 1\n'
    after = CLIENTS["codex"].with_entry(text, CLIENTS["codex"].fields(remote_entry("far", URL))).text
    assert tomllib.loads(after) == {"mcp_servers": {"far": {"url": URL}}, "other": {"a": 1}}


def test_an_entry_nested_deeper_than_can_be_read_is_updated():
    text = '{"mcpServers": {"far": {"url": "https://old.test", "x": ' + "[" * 100_000 + "]" * 100_000 + "}}}"
    cursor = CLIENTS["cursor"]
    assert cursor.with_entry(text, cursor.fields(remote_entry("far", URL))).text == text.replace(
        "https://old.test", URL
    )


def test_zed_gets_headers_without_variables_only():
    assert CLIENTS["zed"].fields(remote_entry("far", URL, ["X-Org: acme"])).all == {
        "url": URL,
        "headers": {"X-Org": "acme"},
    }


@each_row(
    ("client", "headers", "reason"),
    [
        ("zed", [BEARER], "Zed cannot take the header Authorization from the environment; leave out --header"),
        ("codex", ["X-Key: a${KEY}"], "put all of it in the variable and give --header 'X-Key: ${NAME}'"),
        ("claude-desktop", [], "add the URL in its settings, under Connectors"),
    ],
)
def test_what_a_client_cannot_do_is_said_with_what_to_do(client: str, headers: list[str], reason: str):
    with pytest.raises(InputError) as caught:
        CLIENTS[client].fields(remote_entry("far", URL, headers))
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@each_row(
    ("header", "reason"),
    [
        ("Authorization: Bearer hunter2", "in single quotes, --header 'Authorization: Bearer ${NAME}'"),
        ("X-Api-Key: hunter2", "--header X-Api-Key has a value that would be written"),
        ("Cookie: a=hunter2", "--header Cookie has a value that would be written"),
        ("X-Other: ghp_hunter2AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "--header X-Other has a value that would be"),
        ("Authorization: Bearer $TOKEN", "--header Authorization has a value that would be written"),
        ("X-Org: $ACME", "has $ or braces that are not a variable"),
        ("X-Key: ${A}{env:B}", "has $ or braces that are not a variable"),
        ("X-Key: ${A-b}", "has a value that would be written"),
        ("hunter2", "is not of the form 'NAME: VALUE'"),
        ("X Key: ${A}", "is not of the form 'NAME: VALUE'"),
        ("X-Key:", "is not of the form 'NAME: VALUE'"),
        ("X-Key: ${A}\r\nX-Other: b", "is not of the form 'NAME: VALUE'"),
        ("X-Kéy: ${A}", "is not of the form 'NAME: VALUE'"),
    ],
)
def test_a_header_that_would_store_a_secret_or_is_none_is_refused_in_one_line(header: str, reason: str):
    with pytest.raises(InputError) as caught:
        remote_entry("far", URL, [header])
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert header == "hunter2" or "hunter2" not in str(caught.value)


def test_a_header_is_given_once():
    with pytest.raises(InputError, match="--header x-key is given twice"):
        remote_entry("far", URL, ["X-Key: ${A}", "x-key: ${B}"])


@each_row(
    ("url", "reason"),
    [
        ("memory.example.test/mcp", "is not an http"),
        ("ftp://memory.example.test", "is not an http"),
        ("https://", "is not an http"),
        ("https://a b/mcp", "is not an http"),
        ("https://[/mcp", "is not an http"),
        ("https://a:70000/mcp", "is not an http"),
        ("https://a/\n", "is not an http"),
        ("", "is not an http"),
        ("https://ana:hunter2@memory.example.test/mcp", "--url contains a secret"),
        ("https://a/mcp?key=ghp_hunter2AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "--url contains a secret"),
    ],
)
def test_a_url_that_is_none_or_holds_a_secret_is_refused(url: str, reason: str):
    with pytest.raises(InputError) as caught:
        remote_entry("far", url)
    assert reason in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("client", [name for name in CLIENTS if name not in ("claude-desktop", "continue")])
def test_an_entry_of_the_other_kind_is_not_turned_into_this_one(client: str):
    form = CLIENTS[client]
    local = form.fields(ServerEntry("far", "satchel", ("mcp",)))
    remote = form.fields(remote_entry("far", URL))
    for first, second, reason in (
        (local, remote, "is a server with a command, not a remote one"),
        (remote, local, "is a remote server, not one with a command"),
    ):
        with pytest.raises(InputError, match=reason):
            form.with_entry(form.with_entry("", first).text, second)


def test_only_codex_can_require_a_server():
    entry = remote_entry("far", URL)
    assert CLIENTS["codex"].fields(entry, required=True).values["required"] is True
    assert "required" not in CLIENTS["codex"].fields(entry).all
    for name, client in CLIENTS.items():
        if name not in ("codex", "claude-desktop"):
            with pytest.raises(InputError, match="cannot require a server; leave out --required"):
                client.fields(entry, required=True)
