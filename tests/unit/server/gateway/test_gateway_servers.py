"""The servers in a client's configuration."""

import json
import re
import sys

import pytest

from satchel.errors import InputError
from satchel.server.gateway.servers import (
    CommandServer,
    WebServer,
    can_start,
    check_servers,
    command_server,
    read_servers,
    why_not_started,
)


@pytest.fixture
def read(tmp_path):
    """Reads a configuration that is written as text or as a value."""

    def reading(content, **environment):
        path = tmp_path / "mcp.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return read_servers(path, environment)

    return reading


def one(**entry):
    return {"mcpServers": {"fs": entry}}


def test_commands_and_addresses_are_read_in_their_order(read):
    servers = read(
        {
            "mcpServers": {
                "fs": {"command": "npx", "args": ["-y", "server"], "env": {"A": "1"}, "cwd": "/"},
                "off": {"command": "x", "disabled": True},
                "web": {"type": "http", "url": "https://example.org/mcp", "headers": {"X-Key": "k"}},
                "gemini": {"httpUrl": "http://localhost:80/mcp"},
            }
        }
    )
    assert servers == [
        CommandServer(name="fs", command="npx", args=("-y", "server"), env={"A": "1"}, cwd="/"),
        WebServer(name="web", url="https://example.org/mcp", headers={"X-Key": "k"}),
        WebServer(name="gemini", url="http://localhost:80/mcp"),
    ]


def test_a_variable_that_is_not_set_fails_its_own_server_alone(read):
    broken, good = read({"mcpServers": {"fs": {"command": "x", "args": ["${TOKEN}"]}, "ok": {"command": "y"}}})
    assert (broken.name, can_start(broken), good) == ("fs", False, CommandServer(name="ok", command="y"))
    assert why_not_started(broken) == (
        "the server fs cannot be started: mcpServers.fs.args[0] uses the variable TOKEN, which is not set; "
        "set it, or write ${TOKEN:-default}"
    )


@pytest.mark.parametrize(
    ("entry", "offered"),
    [
        ({}, "abc"),
        ({"includeTools": ["a", "b"]}, "ab"),
        ({"enabled_tools": ["a"]}, "a"),
        ({"enabled_tools": []}, ""),
        ({"excludeTools": ["a"]}, "bc"),
        ({"includeTools": ["a", "b"], "excludeTools": ["b"], "disabled_tools": ["c"]}, "a"),
    ],
)
def test_tools_that_a_user_hid_stay_hidden(read, entry, offered):
    (server,) = read(one(command="x", **entry))
    assert [tool for tool in "abc" if server.tools.offers(tool)] == list(offered)


def test_the_format_of_vs_code_is_read_too(read):
    assert read({"servers": {"fs": {"type": "stdio", "command": "x"}}}) == [CommandServer(name="fs", command="x")]


def test_variables_are_filled_in_everywhere(read):
    entry = {
        "command": "${BIN}/x",
        "args": ["--key=${env:KEY}", "${NONE:-default}", "${EMPTY:-default}", "${NONE:-}"],
        "env": {"HOME": "$HOME ${BIN}"},
    }
    (server,) = read(one(**entry), BIN="/bin", KEY="a${b}", EMPTY="")
    assert server.command == "/bin/x"
    assert server.args == ("--key=a${b}", "default", "default", "")
    assert server.env == {"HOME": "$HOME /bin"}
    (web,) = read(one(url="https://${HOST}/mcp", headers={"Authorization": "Bearer ${KEY}"}), HOST="h", KEY="k")
    assert (web.url, web.headers) == ("https://h/mcp", {"Authorization": "Bearer k"})


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ('{"mcpServers": {,}}', "line 1, column 17: "),
        ('{\n "mcpServers": {}\n', "line 3, column 1: "),
        ("[]", 'an object with "mcpServers", not list'),
        ({"servers_": {}}, 'there is no "mcpServers"'),
        ({"mcpServers": []}, "mcpServers must be an object, not list"),
        ({"mcpServers": {" ": {}}}, "a blank name"),
        ({"mcpServers": {"fs": "npx"}}, "mcpServers.fs must be an object, not str"),
        (one(), "mcpServers.fs needs a command or a url"),
        (one(type="http", command="x"), "mcpServers.fs needs a url"),
        (one(type="stdio", url="http://x/"), "mcpServers.fs needs a command"),
        (one(command="x", url="http://x/"), "has a command and a url"),
        (one(command=3), "mcpServers.fs.command must be a string, not int"),
        (one(command="x", args="-y"), "mcpServers.fs.args must be a list of strings, not str"),
        (one(command="x", args=["a", 1]), r"mcpServers.fs.args\[1\] must be a string, not int"),
        (one(command="x", env={"PORT": 80}), "mcpServers.fs.env.PORT must be a string, not int"),
        (one(command="x", env=["A=1"]), "mcpServers.fs.env must be an object of strings, not list"),
        (one(command="x\0"), "null byte"),
        (one(type="sse", url="http://x/sse"), "the SSE transport is not supported"),
        (one(type="carrier-pigeon", command="x"), "'carrier-pigeon' is unknown; known: stdio, http"),
        (one(url="example.org/mcp"), "is not an HTTP URL"),
        (one(url="http://[broken/mcp"), "is not an HTTP URL"),
        (one(command="x", args=["${input:key}"]), "which only an editor can resolve"),
        (one(command="x", env={"A=B": "x"}), "env: 'A=B' is not a valid variable name"),
        (one(command="x", args=["\ud800"]), "lone surrogate"),
        (one(command="x", cwd="/no/such/folder"), "cwd '/no/such/folder' is not a folder"),
        (one(url="https://example.org/mcp", headers={"X-Name": "ü"}), "headers.X-Name is not ASCII"),
    ],
)
def test_what_is_wrong_with_a_configuration_is_said_with_its_place(read, content, complaint):
    """Of the whole at once; of one server when it would be started, since the others are none the worse for it."""
    try:
        (server,) = read(content)
    except InputError as error:
        said = str(error)
        assert "mcp.json" in said
    else:
        assert not can_start(server)
        said = why_not_started(server)
        assert said.startswith(f"the server {server.name} cannot be started: ")
    assert re.search(complaint, said)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*none.json: No such file"):
        read_servers(tmp_path / "none.json")
    (tmp_path / "bytes.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(InputError, match=r"is not UTF-8: .* at byte 7"):
        read_servers(tmp_path / "bytes.json")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match="nested too deeply"):
        read_servers(tmp_path / "deep.json")


def test_a_command_line_is_a_server_named_after_its_program():
    assert command_server(["/usr/bin/node", "x.js"]) == CommandServer(
        name="node", command="/usr/bin/node", args=("x.js",)
    )
    assert command_server(["node"], "fs").name == "fs"
    with pytest.raises(InputError, match="--name is blank"):
        command_server(["node"], " ")


@pytest.mark.parametrize(
    "words",
    [
        ["satchel", "gateway", "--config", "x"],
        ["/opt/bin/satchel", "--db", "x", "gateway"],
        ["python", "-m", "satchel", "gateway"],
        ["uvx", "satchel", "gateway"],
    ],
)
def test_a_gateway_behind_a_gateway_is_refused(words):
    with pytest.raises(InputError, match="is a gateway itself"):
        check_servers([command_server(words, "it")], {})


def test_other_commands_of_ours_may_stand_behind_one():
    check_servers([command_server(["satchel", "mcp"]), command_server(["gateway"])], {})


def test_a_gateway_that_another_started_finds_out():
    with pytest.raises(InputError, match="was started by another"):
        check_servers([command_server(["x"])], {"SATCHEL_GATEWAY": "fs"})


def test_two_servers_of_one_name_are_refused():
    with pytest.raises(InputError, match="two servers are called 'x'"):
        check_servers([command_server(["x"]), WebServer(name="x", url="http://h/")], {})


def test_a_command_is_looked_for_where_it_would_be_started(tmp_path):
    program = tmp_path / "bin" / "tool"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    assert can_start(CommandServer(name="a", command=sys.executable))
    assert can_start(CommandServer(name="a", command="tool", env={"PATH": str(program.parent)}))
    assert can_start(CommandServer(name="a", command="bin/tool", cwd=str(tmp_path)))
    assert not can_start(CommandServer(name="a", command="bin/tool", cwd=str(tmp_path / "bin")))
    assert not can_start(CommandServer(name="a", command="no-such-command-anywhere"))
