"""Setting up clients: `satchel mcp install`, `uninstall` and `config` on copies of real-looking files."""

import json
import re
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from client_files import BROKEN, FILES, SECRET
from complaint import complaint

from conftest import clean_environment
from satchel.cli.app import run

Mcp = Callable[..., subprocess.CompletedProcess[str]]

EVERY_CLIENT = pytest.mark.parametrize("client", FILES)


@pytest.fixture
def mcp(tmp_path: Path, monkeypatch, capfd) -> Mcp:
    """Run `satchel mcp ARGS…` with a home of its own, without the time a process takes."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    for name in (
        "SATCHEL_DB",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "GEMINI_CLI_HOME",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")

    def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        capfd.readouterr()
        code = run(["mcp", *map(str, arguments)])
        printed, remarks = capfd.readouterr()
        return subprocess.CompletedProcess(arguments, code, printed, remarks)

    return command


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With a file of every client in it."""
    for place, text in FILES.values():
        write(tmp_path / place, text)
    return tmp_path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def snapshot(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def entry_in(client: str, text: str) -> dict[str, object]:
    if client == "codex":
        return tomllib.loads(text)["mcp_servers"]["satchel"]
    plain = re.sub(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', lambda match: match[1] or "", text)
    found = json.loads(re.sub(r",(\s*[}\]])", r"\1", plain))
    return found["servers" if client == "vscode" else "mcpServers"]["satchel"]


@EVERY_CLIENT
def test_an_install_adds_the_entry_and_an_uninstall_takes_it_out(mcp: Mcp, home: Path, client: str):
    place = home / FILES[client][0]
    before = snapshot(home)

    done = mcp("install", client, "--project", "shop")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("added satchel to ")
    assert done.stdout.endswith(f": {place}\n")
    assert done.stdout.count("\n") == 1
    entry = entry_in(client, place.read_text())
    assert entry["command"] == str(Path(sys.executable).with_name("satchel"))
    assert entry["args"] == ["mcp", "--project", "shop"]
    assert entry.get("type") == ("stdio" if client == "vscode" else None)
    (backup,) = set(snapshot(home)) - set(before)
    assert re.fullmatch(re.escape(place.name) + r"\.satchel-backup-\d{8}-\d{6}", backup.name)
    assert backup.read_bytes() == before[place]
    assert str(backup) in done.stderr
    assert "restart" in done.stderr

    again = mcp("install", client, "--project", "shop")
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout == f"satchel is already set up, nothing changed: {place}\n"
    assert set(snapshot(home)) == {*before, backup}

    gone = mcp("uninstall", client)
    assert gone.returncode == 0
    assert gone.stdout.startswith("removed satchel from ")
    if client == "gemini":
        assert json.loads(place.read_bytes()) == {**json.loads(before[place]), "mcpServers": {}}
    else:
        assert place.read_bytes() == before[place]
    assert {path: text for path, text in snapshot(home).items() if path in before and path != place} == {
        path: text for path, text in before.items() if path != place
    }

    absent = mcp("uninstall", client)
    assert (absent.returncode, absent.stdout) == (0, f"satchel is not set up, nothing changed: {place}\n")


@EVERY_CLIENT
def test_a_dry_run_shows_a_diff_and_changes_nothing(mcp: Mcp, home: Path, client: str):
    before = snapshot(home)
    done = mcp("install", client, "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"--- {home / FILES[client][0]}"
    assert re.fullmatch(r"@@ -\d+,\d+ \+\d+,\d+ @@", lines[2])
    assert any(line.startswith("+") and "satchel" in line for line in lines[3:])
    assert SECRET not in done.stdout
    assert snapshot(home) == before


@EVERY_CLIENT
@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_a_broken_file_is_reported_and_left_alone(mcp: Mcp, home: Path, client: str, command: str):
    text, reason = BROKEN[client]
    place = write(home / FILES[client][0], text)
    before = snapshot(home)
    for more in ([], ["--dry-run"]):
        line = complaint(mcp(command, client, *more))
        assert str(place) in line
        assert reason in line
    assert snapshot(home) == before


@EVERY_CLIENT
def test_a_missing_file_is_made_and_a_missing_folder_is_remarked_on(mcp: Mcp, tmp_path: Path, client: str):
    place = tmp_path / FILES[client][0]
    shown = mcp("install", client, "--dry-run")
    assert shown.stdout.startswith("--- /dev/null\n")
    assert not place.exists()
    done = mcp("install", client)
    assert done.stdout.startswith("added satchel to ")
    assert ("is new" if client == "claude-code" else "is new; is ") in done.stderr
    assert place.read_text() == mcp("config", client).stdout
    assert stat.S_IMODE(place.stat().st_mode) == 0o600


def test_the_store_and_the_tools_are_named_to_the_server(mcp: Mcp, home: Path, monkeypatch):
    for more, args in {
        ("--db", "notes.db"): ["mcp", "--db", str(home / "work" / "notes.db")],
        ("--db", "/srv/ö notes.db", "--tools", "core"): ["mcp", "--db", "/srv/ö notes.db", "--tools", "core"],
        (): ["mcp"],
    }.items():
        mcp("install", "cursor", *more)
        assert entry_in("cursor", (home / ".cursor/mcp.json").read_text())["args"] == args
    monkeypatch.setenv("SATCHEL_DB", "sub/../other.db")
    assert json.loads(mcp("config").stdout)["mcpServers"]["satchel"]["args"][1:] == [
        "--db",
        str(home / "work" / "sub/../other.db"),
    ]
    monkeypatch.setenv("SATCHEL_DB", "")
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    assert json.loads(mcp("config").stdout)["mcpServers"]["satchel"]["args"] == [
        "mcp",
        "--db",
        str(home / "data" / "satchel" / "satchel.db"),
    ]


def test_a_dry_run_of_an_uninstall_shows_what_would_go(mcp: Mcp, home: Path):
    mcp("install", "cursor")
    before = snapshot(home)
    done = mcp("uninstall", "cursor", "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line for line in done.stdout.splitlines()[3:] if line[0] != " "] == [
        '-\t\t"satchel": {',
        f'-\t\t\t"command": "{Path(sys.executable).with_name("satchel")}",',
        '-\t\t\t"args": ["mcp"]',
        "-\t\t},",
    ]
    assert snapshot(home) == before


def test_a_dry_run_does_not_show_a_byte_order_mark(mcp: Mcp, home: Path):
    write(home / ".cursor/mcp.json", "\ufeff{}")
    done = mcp("install", "cursor", "--dry-run")
    assert done.stdout.splitlines()[3:5] == ["-{}", "+{"]


def test_an_entry_of_another_name_stands_beside_the_first(mcp: Mcp, home: Path):
    mcp("install", "claude-code")
    mcp("install", "claude-code", "--name", "satchel-work", "--project", "work")
    servers = json.loads((home / ".claude.json").read_bytes())["mcpServers"]
    assert list(servers) == ["github", "satchel", "satchel-work"]
    assert mcp("uninstall", "claude-code").returncode == 0
    assert list(json.loads((home / ".claude.json").read_bytes())["mcpServers"]) == ["github", "satchel-work"]


def test_an_old_entry_is_updated_and_keeps_what_the_user_added(mcp: Mcp, home: Path):
    place = write(
        home / ".cursor/mcp.json",
        '{"mcpServers": {"satchel": {"command": "/old", "args": [], "env": {"SATCHEL_DB": "/x"}, "timeout": 9}}}',
    )
    done = mcp("install", "cursor")
    assert done.stdout == f"updated satchel in Cursor: {place}\n"
    assert json.loads(place.read_bytes())["mcpServers"]["satchel"] == {
        "command": str(Path(sys.executable).with_name("satchel")),
        "args": ["mcp"],
        "env": {"SATCHEL_DB": "/x"},
        "timeout": 9,
    }


@pytest.mark.parametrize("client", [client for client in FILES if client != "claude-desktop"])
def test_the_file_of_a_project_is_in_its_folder(mcp: Mcp, home: Path, client: str):
    before = snapshot(home)
    done = mcp("install", client, "--local")
    (made,) = set(snapshot(home)) - set(before)
    assert made.is_relative_to(home / "work")
    assert ("asks before it starts" in done.stderr) == (client == "claude-code")
    assert ("in trusted projects only" in done.stderr) == (client == "codex")
    assert done.stdout.endswith(f": {made}\n")
    assert mcp("uninstall", client, "--local").stdout.startswith("removed satchel from ")


def test_a_file_is_named_by_hand(mcp: Mcp, home: Path):
    done = mcp("install", "vscode", "--file", "profile.json")
    assert done.stdout == f"added satchel to VS Code: {home / 'work' / 'profile.json'}\n"
    assert entry_in("vscode", (home / "work" / "profile.json").read_text())["type"] == "stdio"


def test_a_client_that_reads_plain_json_only_is_told_of_comments(mcp: Mcp, home: Path):
    write(home / ".claude.json", '{"mcpServers": {}, // mine\n}')
    assert "comments or trailing commas, which Claude Code may not read" in mcp("install", "claude-code").stderr
    assert "comments" not in mcp("install", "cursor").stderr


def test_an_option_before_the_name_of_a_set_up_command_is_refused_not_lost(mcp: Mcp, home: Path):
    done = mcp("--project", "shop", "install", "cursor")
    assert (done.returncode, done.stderr) == (2, "satchel: --project stands before install; put it behind\n")


def test_config_prints_what_is_to_be_pasted_and_touches_nothing(mcp: Mcp, home: Path):
    before = snapshot(home)
    command = str(Path(sys.executable).with_name("satchel"))

    def entry(client: str | None) -> dict[str, object]:
        return {"command": command, "args": ["mcp", "--project", "shop"]}

    for client in (None, "claude-code", "claude-desktop", "cursor", "gemini"):
        done = mcp("config", *([client] if client else []), "--project", "shop")
        assert json.loads(done.stdout) == {"mcpServers": {"satchel": entry(client)}}
    assert json.loads(mcp("config", "vscode", "--project", "shop").stdout) == {
        "servers": {"satchel": {"type": "stdio", **entry("vscode")}}
    }
    assert tomllib.loads(mcp("config", "codex", "--project", "shop", "--name", "mine").stdout) == {
        "mcp_servers": {"mine": entry("codex")}
    }
    assert snapshot(home) == before


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("install", "emacs"), "'emacs' is not one of"),
        (("install",), "Missing argument"),
        (("install", "claude-desktop", "--local"), "has no project file"),
        (("install", "cursor", "--local", "--file", "x.json"), "--file and --local"),
        (("install", "cursor", "--name", "my memory"), "is not a valid server name"),
        (("uninstall", "cursor", "--name", ""), "is not a valid server name"),
        (("install", "cursor", "--project", " "), "--project is blank"),
        (("install", "cursor", "--db", ":memory:"), "cannot use a :memory: store"),
        (("config", "--db", "postgresql://ana:hunter2@db:x/x"), "is no address of a PostgreSQL database"),
        (("config", "--db", " "), "--db is empty"),
        (("install", "cursor", "--tools", "none"), "there is no tool 'none'"),
        (("install", "cursor", "--file", "."), "is a folder"),
        (("install", "cursor", "--file", "\udcff.json", "--db", "\udcff.db"), "is not UTF-8"),
    ],
)
def test_bad_input_is_one_line_and_nothing_changes(mcp: Mcp, home: Path, arguments: tuple[str, ...], reason: str):
    before = snapshot(home)
    line = complaint(mcp(*arguments))
    assert reason in line
    assert "hunter2" not in line
    assert snapshot(home) == before


RACER = """
import sys
from datetime import datetime
from pathlib import Path
from satchel.cli.clients.client import CLIENTS
from satchel.cli.clients.config_file import carry_out
from satchel.cli.clients.entry import ServerEntry
path, first = Path(sys.argv[1]), int(sys.argv[2])
sys.stdin.readline()
for number in range(first, first + 25):
    entry = ServerEntry(f"s{number}", "x", ("mcp",))
    carry_out(path, lambda text: CLIENTS["cursor"].with_entry(text, entry), now=datetime.now())
"""


def test_installs_at_the_same_time_leave_a_whole_file(tmp_path: Path):
    place = write(tmp_path / "mcp.json", '{"mcpServers": {"other": {"command": "x"}}, "theme": "dark"}')
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, place, str(first)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=clean_environment(tmp_path),
        )
        for first in (0, 100)
    ]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write(b"go\n")
        racer.stdin.flush()
    assert [racer.communicate(timeout=60)[1] for racer in racers] == [b"", b""]
    found = json.loads(place.read_bytes())
    assert found["theme"] == "dark"
    assert found["mcpServers"]["other"] == {"command": "x"}
    assert len(found["mcpServers"]) == 1 + 2 * 25
    assert all(json.loads(backup.read_bytes()) for backup in tmp_path.glob("*.satchel-backup-*"))
    assert not list(tmp_path.glob(".satchel-*"))
