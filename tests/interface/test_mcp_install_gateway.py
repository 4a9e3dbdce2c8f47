"""`satchel mcp install CLIENT --gateway`: moving a client's servers behind the gateway, and back."""

import json
import re
import stat
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from client_files import BROKEN, FILES, SECRET
from complaint import complaint

from conftest import COMMAND, Cli

Mcp = Callable[..., subprocess.CompletedProcess[str]]

EVERY_CLIENT = pytest.mark.parametrize("client", FILES)

# What the files of clients have no servers for.
MORE = {
    "claude-desktop": ('"mcpServers": {}', '"mcpServers": {"time": {"command": "uvx"}}'),
    "cursor": (
        '"linear": {',
        '"time": {"command": "uvx", "env": {"WORD": "tortoise"}, "timeout": 9},\n\t\t"linear": {',
    ),
    "gemini": ('"ui":', '"mcpServers":{"time":{"command":"uvx"}},"ui":'),
    "zed": ('"theme":', '"context_servers": {"time": {"command": "uvx", "args": []}},\n  "theme":'),
}
MOVED = {
    "claude-code": "github",
    "codex": "context7",
    "vscode": "playwright",
    "opencode": "context7",
    "cline": "fs",
    "windsurf": "web",
}
KEYS = {"vscode": "servers", "opencode": "mcp", "zed": "context_servers"}


@pytest.fixture
def mcp(cli: Cli, tmp_path: Path) -> Mcp:
    """Run `satchel mcp ARGS…` with a home and a store of its own."""
    nowhere = dict.fromkeys(("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"), "")
    return lambda *arguments: cli("mcp", *arguments, **nowhere)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With a file of every client in it, and a server in each."""
    for client, (place, text) in FILES.items():
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.replace(*MORE.get(client, ("", "")), 1).encode())
    return tmp_path


def snapshot(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def servers(client: str, path: Path) -> dict[str, Any]:
    text = path.read_text()
    if client == "codex":
        return tomllib.loads(text)["mcp_servers"]
    plain = re.sub(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', lambda match: match[1] or "", text)
    found: dict[str, Any] = json.loads(re.sub(r",(?=\s*[}\]])", "", plain))
    return found[KEYS.get(client, "mcpServers")]


def test_a_gateway_keeps_to_what_its_client_shows_and_may_be_required(mcp: Mcp, home: Path):
    assert mcp("install", "cline", "--gateway").returncode == 0
    cline = servers("cline", home / FILES["cline"][0])["satchel-gateway"]
    assert cline["args"][-2:] == ["--per-call", "1500"]
    assert mcp("install", "codex", "--gateway", "--required").returncode == 0
    assert servers("codex", home / FILES["codex"][0])["satchel-gateway"]["required"] is True
    assert "cannot require a server" in complaint(mcp("install", "cursor", "--gateway", "--required"))


@EVERY_CLIENT
def test_an_install_puts_it_in_front_and_an_uninstall_gives_the_file_back(mcp: Mcp, home: Path, client: str):
    place = home / FILES[client][0]
    ours = home / ".config" / "satchel" / f"gateway-{client}.json"
    before = snapshot(home)
    moved = MOVED.get(client, "time")

    done = mcp("install", client, "--gateway")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(rf"put 1 server of [\w ]+ behind satchel-gateway: {re.escape(str(place))}\n", done.stdout)
    assert f"moved to {ours}: {moved}\n" in done.stderr
    assert "restart " in done.stderr
    (backup,) = (path for path in snapshot(home).keys() - before.keys() if path.parent == place.parent)
    assert backup.read_bytes() == before[place]
    assert f"backup: {backup}\n" in done.stderr
    entry = servers(client, place)["satchel-gateway"]
    words = entry["command"] if client == "opencode" else [entry["command"], *entry["args"]]
    assert words[:6] == [str(COMMAND), "gateway", "--config", str(ours), "--db", str(home / "notes.db")]
    assert list(json.loads(ours.read_bytes())["mcpServers"]) == [moved]
    assert (stat.S_IMODE(ours.stat().st_mode), stat.S_IMODE(ours.parent.stat().st_mode)) == (0o600, 0o700)

    done = snapshot(home)
    again = mcp("install", client, "--gateway")
    assert (again.returncode, again.stdout) == (0, f"satchel-gateway is already set up, nothing changed: {place}\n")
    assert snapshot(home) == done

    gone = mcp("uninstall", client, "--gateway")
    assert gone.returncode == 0
    assert re.fullmatch(r"removed satchel-gateway from [\w ]+, restored 1 server: .+\n", gone.stdout)
    assert f"removed what the install made: {ours}, {backup}\n" in gone.stderr
    assert snapshot(home) == before
    absent = mcp("uninstall", client, "--gateway")
    assert (absent.returncode, absent.stdout, absent.stderr) == (
        0,
        f"satchel-gateway is not set up, nothing changed: {place}\n",
        "",
    )


@EVERY_CLIENT
def test_a_dry_run_shows_a_diff_without_secrets_and_changes_nothing(mcp: Mcp, home: Path, client: str):
    for command, sign in (("install", "+"), ("uninstall", "-")):
        before = snapshot(home)
        done = mcp(command, client, "--gateway", "--dry-run")
        assert done.returncode == 0
        assert done.stdout.startswith(f"--- {home / FILES[client][0]}\n")
        assert re.search(rf"^\{sign}.*satchel-gateway", done.stdout, re.MULTILINE)
        assert ("would move to" in done.stderr) == (command == "install")
        assert "restart" not in done.stderr
        for secret in (SECRET, "tortoise"):
            assert secret not in done.stdout + done.stderr
        assert snapshot(home) == before
        mcp("install", client, "--gateway")


@EVERY_CLIENT
@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_a_broken_file_is_reported_and_left_alone(mcp: Mcp, home: Path, client: str, command: str):
    text, reason = BROKEN[client]
    place = home / FILES[client][0]
    place.write_text(text)
    before = snapshot(home)
    for more in ([], ["--dry-run"]):
        line = complaint(mcp(command, client, "--gateway", *more))
        assert str(place) in line
        assert reason in line
    assert snapshot(home) == before


def test_what_stays_and_what_is_not_used_is_remarked_on(mcp: Mcp, home: Path):
    place = home / ".cursor/mcp.json"
    place.write_text(
        json.dumps(
            {
                "mcpServers": {
                    "satchel": {"command": "satchel", "args": ["mcp"]},
                    "far": {"url": "https://far.example.test/mcp"},
                    "a": {"command": "a", "timeout": 1, "alwaysAllow": []},
                    "b": {"command": "b", "autoApprove": []},
                    "old": {"type": "sse", "url": "https://old.example.test/"},
                    "odd\n\x1b[31m": {"command": "${work\nspace\x1b}/x"},
                }
            }
        )
    )
    done = mcp("install", "cursor", "--gateway")
    assert done.stdout.startswith("put 3 servers of Cursor behind satchel-gateway: ")
    lines = done.stderr.splitlines()
    assert lines[0].endswith("/gateway-cursor.json: far, a, b")
    assert lines[1:5] == [
        "old is not moved: its type is sse, which the gateway does not support",
        "odd \ufffd[31m is not moved: it has ${work space\ufffd}, which only Cursor resolves",
        "settings that the gateway does not use, kept for uninstall: a (timeout, alwaysAllow), b (autoApprove)",
        "the gateway cannot log in; if one of these needs it, use --only for the others: far",
    ]
    assert "\x1b" not in done.stderr
    assert list(servers("cursor", place)) == ["satchel", "satchel-gateway", "old", "odd\n\x1b[31m"]


def test_a_file_without_servers_gets_no_gateway(mcp: Mcp, home: Path):
    place = home / ".gemini/settings.json"
    place.write_text('{"mcpServers": {"off": {"command": "x", "disabled": true}}}')
    before = snapshot(home)
    done = mcp("install", "gemini", "--gateway")
    assert (done.returncode, done.stdout) == (
        0,
        f"there is no server to put behind satchel-gateway, nothing changed: {place}\n",
    )
    assert done.stderr == "off is not moved: it is disabled\n"
    place.unlink()
    assert mcp("install", "gemini", "--gateway").returncode == 0
    assert snapshot(home) == {path: text for path, text in before.items() if path != place}


def test_more_servers_go_behind_it_one_by_one(mcp: Mcp, home: Path):
    place = home / "work.json"
    place.write_text('{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}, "c": {"command": "c"}}}')
    before = place.read_text()
    file = ("--file", place)
    assert "put 1 server of" in mcp("install", "cursor", "--gateway", "--only", "b", *file).stdout
    assert list(servers("cursor", place)) == ["a", "satchel-gateway", "c"]
    more = mcp("install", "cursor", "--gateway", "--only", "c", "--only", "a", *file)
    assert more.stdout == f"put 2 servers more of Cursor behind satchel-gateway: {place}\n"
    assert list(servers("cursor", place)) == ["satchel-gateway"]
    done = mcp("install", "cursor", "--gateway", "--db", "other.db", *file)
    assert done.stdout == f"updated satchel-gateway in Cursor: {place}\n"
    assert servers("cursor", place)["satchel-gateway"]["args"][-1] == str(home / "other.db")
    assert mcp("uninstall", "cursor", "--gateway", *file).stdout.endswith(f"restored 3 servers: {place}\n")
    assert servers("cursor", place) == json.loads(before)["mcpServers"]


def test_a_name_that_another_bears_by_now_is_told(mcp: Mcp, home: Path):
    place = home / "work.json"
    place.write_text('{"mcpServers": {"a": {"command": "a"}}}')
    mcp("install", "cursor", "--gateway", "--file", place)
    place.write_text(place.read_text().replace('"mcpServers": {', '"mcpServers": {"a": {"command": "other"}, '))
    done = mcp("uninstall", "cursor", "--gateway", "--file", place)
    assert re.search(
        r"^these names are used by other servers now, which are kept; the ones from the gateway are in "
        r"\S+/gateway-cursor-\w{12}\.json\.satchel-backup-[\d-]+: a$",
        done.stderr,
        re.MULTILINE,
    )
    assert servers("cursor", place) == {"a": {"command": "other"}}


def test_the_memory_server_and_the_gateway_come_and_go_by_themselves(mcp: Mcp, home: Path):
    place = home / ".cursor/mcp.json"
    before = place.read_bytes()
    mcp("install", "cursor")
    with_memory = place.read_bytes()
    mcp("install", "cursor", "--gateway")
    assert {"satchel", "satchel-gateway"} <= set(servers("cursor", place))
    mcp("uninstall", "cursor", "--gateway")
    assert place.read_bytes() == with_memory
    mcp("install", "cursor", "--gateway")
    mcp("uninstall", "cursor")
    assert "satchel" not in servers("cursor", place)
    mcp("uninstall", "cursor", "--gateway")
    assert set(servers("cursor", place)) == {"time", "linear"}
    mcp("install", "cursor", "--gateway")
    mcp("install", "cursor")
    mcp("uninstall", "cursor", "--gateway")
    mcp("uninstall", "cursor")
    assert place.read_bytes() == before


def test_the_file_of_a_project_has_one_of_ours_that_is_not_in_the_project(mcp: Mcp, home: Path):
    place = home / ".mcp.json"
    place.write_text('{"mcpServers": {"a": {"command": "a"}}}')
    done = mcp("install", "claude-code", "--gateway", "--local")
    (ours,) = (home / ".config" / "satchel").glob("gateway-*")
    assert re.fullmatch(r"gateway-claude-code-[0-9a-f]{12}\.json", ours.name)
    assert f"{ours} is outside the project, so do not commit this change\n" in done.stderr
    assert "asks before it starts" in done.stderr
    # The same file by its name is the same move.
    assert "already set up" in mcp("install", "claude-code", "--gateway", "--file", place).stdout
    mcp("uninstall", "claude-code", "--gateway", "--local")
    assert place.read_text() == '{"mcpServers": {"a": {"command": "a"}}}'


def test_a_file_left_over_from_an_uninstall_is_set_aside_by_the_next(mcp: Mcp, home: Path):
    place, ours = home / ".cursor/mcp.json", home / ".config/satchel/gateway-cursor.json"
    before = place.read_bytes()
    mcp("install", "cursor", "--gateway")
    left = ours.read_bytes()
    mcp("uninstall", "cursor", "--gateway")
    ours.parent.mkdir()
    ours.write_bytes(left)
    done = mcp("uninstall", "cursor", "--gateway")
    assert done.stdout == f"satchel-gateway is not set up, nothing changed: {place}\n"
    assert done.stderr.startswith("backup of the servers behind the gateway: ")
    assert (place.read_bytes(), ours.exists()) == (before, False)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("install", "cursor", "--gateway", "--project", "x"), "--project does not apply to the gateway"),
        (("install", "cursor", "--gateway", "--tools", "core"), "--tools does not apply to the gateway"),
        (("install", "cursor", "--gateway", "--name", "satchel"), "--name does not apply to the gateway"),
        (("uninstall", "cursor", "--gateway", "--name", "x"), "--name does not apply to the gateway"),
        (("install", "cursor", "--only", "time"), "--only needs --gateway"),
        (("install", "cursor", "--gateway", "--url", "https://x.test"), "--url does not apply to the gateway"),
        (("install", "continue", "--gateway"), "the servers of Continue cannot be moved"),
        (("uninstall", "continue", "--gateway"), "the servers of Continue cannot be moved"),
        (
            ("install", "cursor", "--gateway", "--only", "tiem"),
            "there is no server 'tiem'; there are: time, linear",
        ),
        (("uninstall", "cursor", "--gateway", "--only", "time"), "No such option"),
        (("install", "cursor", "--gateway", "--local", "--file", "x.json"), "--file and --local"),
        (("install", "claude-desktop", "--gateway", "--local"), "has no project file"),
        (("install", "cursor", "--gateway", "--db", ":memory:"), "cannot use a :memory: store"),
        (("install", "cursor", "--gateway", "--file", "."), "is a folder"),
    ],
)
def test_bad_input_is_one_line_and_nothing_changes(mcp: Mcp, home: Path, arguments: tuple[str, ...], reason: str):
    before = snapshot(home)
    assert reason in complaint(mcp(*arguments))
    assert snapshot(home) == before


def test_a_read_only_file_is_refused_before_anything_is_written(mcp: Mcp, home: Path):
    place = home / ".cursor/mcp.json"
    place.chmod(0o444)
    before = snapshot(home)
    assert "is read-only" in complaint(mcp("install", "cursor", "--gateway"))
    assert snapshot(home) == before


def test_a_folder_of_ours_that_cannot_be_leaves_the_clients_file_alone(mcp: Mcp, home: Path):
    (home / ".config" / "satchel").write_text("a file")
    before = snapshot(home)
    assert "gateway-cursor.json cannot be read: Not a directory" in complaint(mcp("install", "cursor", "--gateway"))
    assert snapshot(home) == before
