"""How a client's entry is converted for the gateway, and which entries only the client can run."""

import json
from pathlib import Path
from typing import Any

import pytest

from satchel.cli.clients.client import CLIENTS
from satchel.cli.clients.entry import RemoteEntry, ServerEntry
from satchel.cli.clients.gateway_move import Runnable, runnable
from satchel.server.gateway.servers import read_servers
from tables import each_row

WEB = "https://example.test/mcp"


@each_row(
    ("client", "value", "server"),
    [
        ("cursor", {"command": "x"}, {"command": "x"}),
        ("cursor", {"command": "x", "args": [], "env": {}, "cwd": None}, {"command": "x"}),
        (
            "claude-code",
            {"type": "stdio", "command": "x", "args": ["a", ""], "env": {"A": "1", "PORT": 80}, "cwd": "/y"},
            {"command": "x", "args": ["a", ""], "env": {"A": "1", "PORT": "80"}, "cwd": "/y"},
        ),
        ("cursor", {"url": WEB}, {"type": "http", "url": WEB}),
        (
            "vscode",
            {"type": "http", "url": WEB, "headers": {"K": "v"}},
            {"type": "http", "url": WEB, "headers": {"K": "v"}},
        ),
        ("claude-code", {"type": "streamable-http", "url": WEB}, {"type": "http", "url": WEB}),
        ("gemini", {"httpUrl": f"{WEB}/sse"}, {"type": "http", "url": f"{WEB}/sse"}),
        ("gemini", {"type": "http", "url": WEB}, {"type": "http", "url": WEB}),
        (
            "codex",
            {"url": WEB, "http_headers": {"A": "a"}, "env_http_headers": {"B": "VAR_B"}},
            {"type": "http", "url": WEB, "headers": {"A": "a", "B": "${VAR_B}"}},
        ),
        # Codex ignores what others call headers.
        ("codex", {"url": WEB, "headers": {"A": "a"}}, {"type": "http", "url": WEB}),
        ("claude-code", {"command": "${A}", "args": ["${B:-c}"]}, {"command": "${A}", "args": ["${B:-c}"]}),
        ("cursor", {"command": "${env:A}"}, {"command": "${env:A}"}),
        ("claude-desktop", {"command": "sh", "args": ["-c", "$HOME"]}, {"command": "sh", "args": ["-c", "$HOME"]}),
        (
            "opencode",
            {"type": "local", "command": ["x", "y"], "environment": {"A": "1"}, "enabled": True},
            {"command": "x", "args": ["y"], "env": {"A": "1"}},
        ),
        ("opencode", {"type": "remote", "url": WEB}, {"type": "http", "url": WEB}),
        ("windsurf", {"serverUrl": WEB}, {"type": "http", "url": WEB}),
        ("cline", {"type": "streamableHttp", "url": WEB}, {"type": "http", "url": WEB}),
        ("zed", {"command": "x", "args": [], "env": {}}, {"command": "x"}),
    ],
)
def test_a_server_is_told_in_the_form_that_clients_have_in_common(client: str, value: Any, server: Any):
    answer = runnable(CLIENTS[client], value)
    assert isinstance(answer, Runnable), answer
    assert answer.server == server


@each_row(
    ("client", "value", "reason"),
    [
        ("cursor", {"type": "sse", "url": WEB}, "its type is sse"),
        ("cursor", {"url": "https://example.test/sse/"}, "its url ends in /sse"),
        ("cursor", {"url": "https://[/mcp"}, "its url is not an HTTP URL"),
        ("cline", {"url": WEB}, "Cline may use sse for a url without a type; give it a type"),
        ("cline", {"transport": {"type": "stdio", "command": "x"}}, "it has no command or url"),
        ("opencode", {"type": "local", "command": []}, "it has no command or url"),
        ("opencode", {"type": ["local"], "command": ["x"]}, "is unknown"),
        (
            "opencode",
            {"type": "local", "command": ["x", "{env:A}"]},
            "it has {env:A}, which only opencode resolves",
        ),
        ("opencode", {"type": "local", "command": ["x"], "enabled": False}, "it is disabled"),
        ("zed", {"settings": {}}, "it has no command or url"),
        ("gemini", {"url": WEB}, "Gemini CLI may use sse"),
        ("cursor", {"type": "ws", "url": WEB}, "its type 'ws' is unknown"),
        ("cursor", {"type": ["http"], "url": WEB}, "its type ['http'] is unknown"),
        ("cursor", {"type": "stdio", "url": WEB}, "no command or url that fits its type stdio"),
        ("cursor", {"type": "http", "command": "x"}, "no command or url that fits its type http"),
        ("cursor", {"command": "x", "url": WEB}, "both a command and a url"),
        ("cursor", {"command": "x", "disabled": True}, "it is disabled"),
        ("codex", {"command": "x", "enabled": False}, "it is disabled"),
        ("cursor", {}, "it has no command or url"),
        ("cursor", {"command": ""}, "it has no command or url"),
        ("cursor", {"serverUrl": WEB}, "it has no command or url"),
        ("cursor", "npx", "it is not an object"),
        ("cursor", None, "it is not an object"),
        ("cursor", {"command": ["npx"]}, "its command is not text"),
        ("cursor", {"command": "x", "args": "y"}, "its args is not a list of strings"),
        ("cursor", {"command": "x", "args": ["y", 1]}, "its args is not a list of strings"),
        ("cursor", {"command": "x", "args": ["\ud800"]}, "its args is not a list of strings"),
        ("cursor", {"command": "x\0"}, "its command is not text"),
        ("cursor", {"command": "x", "env": ["A=1"]}, "its env is not an object of strings"),
        ("cursor", {"command": "x", "env": {"A": True}}, "its env is not an object of strings"),
        ("vscode", {"command": "x", "env": {"A": None}}, "its env is not an object of strings"),
        ("vscode", {"command": "x", "envFile": ".env"}, "it needs envFile"),
        ("vscode", {"command": "x", "sandboxEnabled": True}, "it needs sandboxEnabled"),
        ("claude-code", {"type": "http", "url": WEB, "headersHelper": "x.sh"}, "it needs headersHelper"),
        ("cursor", {"url": WEB, "auth": {"CLIENT_ID": "x"}}, "it needs auth"),
        ("vscode", {"command": "x", "args": ["${input:key}"]}, "it has ${input:key}, which only VS Code resolves"),
        ("vscode", {"command": "${workspaceFolder}/x"}, "it has ${workspaceFolder}, which only VS Code"),
        ("cursor", {"url": WEB, "headers": {"K": "a${userHome}"}}, "it has ${userHome}, which only Cursor"),
        (
            "claude-code",
            {"command": "${input:x}"},
            "it has ${input:x}, which the gateway would resolve as a variable",
        ),
        ("gemini", {"command": "x", "env": {"K": "$KEY"}}, "it has $KEY, which only Gemini CLI resolves"),
        ("gemini", {"command": "x", "env": {"K": "${KEY}"}}, "it has ${KEY}, which only Gemini CLI resolves"),
        (
            "codex",
            {"command": "sh", "args": ["-c", "${HOME}"]},
            "it has ${HOME}, which the gateway would resolve as a",
        ),
        ("codex", {"command": "x", "env_vars": "A"}, "its env_vars is not a list"),
        ("codex", {"command": "x", "env_vars": [{"name": "A", "source": "remote"}]}, "its env_vars is not a list"),
        ("codex", {"url": WEB, "bearer_token_env_var": 1}, "its bearer_token_env_var is not text"),
    ],
)
def test_what_the_gateway_cannot_run_stays_for_a_reason(client: str, value: Any, reason: str):
    answer = runnable(CLIENTS[client], value)
    assert isinstance(answer, str)
    assert reason in answer


def test_what_the_gateway_does_not_use_is_named():
    value = {"command": "x", "timeout": 5, "alwaysAllow": ["a"], "disabled": False, "http_headers": {}}
    answer = runnable(CLIENTS["cursor"], value)
    assert answer == Runnable({"command": "x"}, ("timeout", "alwaysAllow", "http_headers"))
    toml = {"command": "x", "enabled": True, "startup_timeout_sec": 9.5, "enabled_tools": ["a"], "type": "stdio"}
    assert runnable(CLIENTS["codex"], toml) == Runnable(
        {"command": "x", "includeTools": ["a"]}, ("startup_timeout_sec", "type")
    )


def test_tools_that_are_hidden_from_a_client_are_hidden_by_the_gateway():
    gemini = runnable(CLIENTS["gemini"], {"command": "x", "includeTools": ["a"], "excludeTools": ["b"]})
    assert gemini == Runnable({"command": "x", "includeTools": ["a"], "excludeTools": ["b"]})
    codex = runnable(CLIENTS["codex"], {"command": "x", "disabled_tools": ["b"]})
    assert codex == Runnable({"command": "x", "excludeTools": ["b"]})
    assert (
        runnable(CLIENTS["gemini"], {"command": "x", "excludeTools": "b"})
        == "its excludeTools is not a list of strings"
    )


def test_variables_that_codex_has_to_hand_on_are_named_once():
    local = {"name": "B", "source": "local"}
    answer = runnable(CLIENTS["codex"], {"command": "x", "env_vars": ["A", local, "A"]})
    assert answer == Runnable({"command": "x"}, (), ("A", "B"))
    web = {"url": WEB, "bearer_token_env_var": "T", "env_http_headers": {"X": "T"}}
    answer = runnable(CLIENTS["codex"], web)
    assert isinstance(answer, Runnable)
    assert answer.variables == ("T",)
    assert answer.server["headers"] == {"X": "${T}", "Authorization": "Bearer ${T}"}


@pytest.mark.parametrize("client", [name for name in CLIENTS if name not in ("claude-desktop", "continue")])
def test_the_gateway_reads_what_it_is_told(client: str, tmp_path: Path):
    values = [
        {**CLIENTS[client].fields(entry).values, "cwd": "/"}
        for entry in (ServerEntry("a", "x", ("y",)), RemoteEntry("b", WEB, {"A": "b"}))
    ]
    answers = [runnable(CLIENTS[client], value) for value in values]
    servers = {f"s{at}": answer.server for at, answer in enumerate(answers) if isinstance(answer, Runnable)}
    file = tmp_path / "gateway.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    assert [server.name for server in read_servers(file, {})] == ["s0", "s1"]
