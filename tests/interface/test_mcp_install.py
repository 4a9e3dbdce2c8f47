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

KEYS = {"vscode": "servers", "opencode": "mcp", "zed": "context_servers"}
# What a new entry has besides its command line: no approval, no duty to start, and time for a cold start.
FURTHER = {
    "claude-code": {"timeout": 60_000},
    "codex": {"startup_timeout_sec": 30, "tool_timeout_sec": 60},
    "vscode": {"type": "stdio"},
    "gemini": {"timeout": 60_000},
    "opencode": {"type": "local", "timeout": 30_000},
    "cline": {"timeout": 60},
}
# Cline cuts longer results, so the server keeps to what it shows.
OPTIONS = {"cline": ["--most-tokens", "1500"]}

EVERY_CLIENT = pytest.mark.parametrize("client", FILES)
EVERY_PROJECT_FILE = pytest.mark.parametrize(
    "client", [client for client in FILES if client not in ("claude-desktop", "cline", "windsurf")]
)


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
        "CLINE_DIR",
        "CLINE_DATA_DIR",
        "CLINE_MCP_SETTINGS_PATH",
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
    return found[KEYS.get(client, "mcpServers")]["satchel"]


def words(entry: dict[str, object]) -> list[str]:
    """The command line of an entry; opencode has it in one list."""
    command = entry["command"]
    return command if isinstance(command, list) else [command, *entry["args"]]


def files_around(home: Path) -> set[Path]:
    """All files but Satchel's own record of what was installed."""
    return {path for path in snapshot(home) if path.parent != home / ".config" / "satchel"}


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
    assert words(entry) == [
        str(Path(sys.executable).with_name("satchel")),
        "mcp",
        "--project",
        "shop",
        *OPTIONS.get(client, []),
    ]
    assert {key: value for key, value in entry.items() if key not in ("command", "args")} == FURTHER.get(client, {})
    (backup,) = files_around(home) - set(before)
    assert re.fullmatch(re.escape(place.name) + r"\.satchel-backup-\d{8}-\d{6}", backup.name)
    assert backup.read_bytes() == before[place]
    assert str(backup) in done.stderr
    assert "restart" in done.stderr

    again = mcp("install", client, "--project", "shop")
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout == f"satchel is already set up, nothing changed: {place}\n"
    assert files_around(home) == {*before, backup}

    gone = mcp("uninstall", client)
    assert gone.returncode == 0
    assert gone.stdout.startswith("removed satchel from ")
    assert f"removed what the install made: {backup}\n" in gone.stderr
    assert snapshot(home) == before

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


@EVERY_PROJECT_FILE
def test_the_file_of_a_project_is_in_its_folder(mcp: Mcp, home: Path, client: str):
    before = snapshot(home)
    done = mcp("install", client, "--local")
    (made,) = files_around(home) - set(before)
    assert made.is_relative_to(home / "work")
    assert ("asks before it starts" in done.stderr) == (client == "claude-code")
    assert ("in trusted projects only" in done.stderr) == (client == "codex")
    assert done.stdout.endswith(f": {made}\n")
    assert mcp("uninstall", client, "--local").stdout.startswith("removed satchel from ")


@EVERY_PROJECT_FILE
@pytest.mark.parametrize("store", ["", "/srv/ana.db", "postgresql://ana:hunter2@db/x"])
def test_the_file_of_a_project_has_no_path_and_no_store_of_this_machine(
    mcp: Mcp, tmp_path: Path, monkeypatch, client: str, store: str
):
    monkeypatch.setenv("SATCHEL_DB", store)
    before = snapshot(tmp_path)
    done = mcp("install", client, "--local", "--project", "shop")
    (made,) = files_around(tmp_path) - set(before)
    assert words(entry_in(client, made.read_text())) == ["satchel", "mcp", "--project", "shop"]
    assert ("SATCHEL_DB is not written" in done.stderr) == bool(store)
    assert "password" not in done.stderr
    mcp("uninstall", client, "--local")
    assert snapshot(tmp_path) == before
    assert list((tmp_path / "work").iterdir()) == []


def test_a_store_of_a_project_is_named_from_its_folder(mcp: Mcp, home: Path, monkeypatch):
    place = home / "work/.cursor/mcp.json"
    for given, written in {
        "notes.db": "notes.db",
        "./data/../data/notes.db": "data/notes.db",
        str(home / "work" / "data" / "notes.db"): "data/notes.db",
        "postgresql://ana@db/x": "postgresql://ana@db/x",
    }.items():
        mcp("install", "cursor", "--local", "--db", given)
        assert words(entry_in("cursor", place.read_text())) == ["satchel", "mcp", "--db", written]


def test_a_project_whose_command_is_not_on_the_path_is_told(mcp: Mcp, home: Path, monkeypatch):
    remark = "the file names the command `satchel`, which is not on the PATH here\n"
    monkeypatch.setenv("PATH", str(home))
    assert remark in mcp("install", "cursor", "--local").stderr
    mcp("uninstall", "cursor", "--local")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert remark not in mcp("install", "cursor", "--local").stderr


def test_an_entry_with_an_option_that_is_no_more_is_replaced(mcp: Mcp, home: Path):
    place = write(
        home / ".claude.json",
        '{"mcpServers": {"satchel": {"command": "/old/satchel", "args": ["mcp", "--text-only"], "timeout": 5}}}',
    )
    assert mcp("install", "claude-code").stdout == f"updated satchel in Claude Code: {place}\n"
    command = str(Path(sys.executable).with_name("satchel"))
    assert entry_in("claude-code", place.read_text()) == {"command": command, "args": ["mcp"], "timeout": 5}


def test_a_remote_server_is_added_updated_and_removed(mcp: Mcp, home: Path):
    place = home / ".cursor/mcp.json"
    before = snapshot(home)
    url = "https://memory.example.test/mcp"
    done = mcp("install", "cursor", "--url", url, "--header", "Authorization: Bearer ${SATCHEL_TOKEN}")
    assert done.stdout == f"added satchel to Cursor: {place}\n"
    assert "Cursor must find SATCHEL_TOKEN in its environment\n" in done.stderr
    headers = {"Authorization": "Bearer ${env:SATCHEL_TOKEN}"}
    assert entry_in("cursor", place.read_text()) == {"url": url, "headers": headers}
    again = mcp("install", "cursor", "--url", url, "--header", "Authorization: Bearer ${SATCHEL_TOKEN}")
    assert (again.stdout, again.stderr) == (f"satchel is already set up, nothing changed: {place}\n", "")
    other = mcp("install", "cursor", "--url", "http://memory.example.test/mcp", "--header", "X-Key: ${KEY}")
    assert "sent unencrypted" in other.stderr
    assert entry_in("cursor", place.read_text()) == {
        "url": "http://memory.example.test/mcp",
        "headers": {"X-Key": "${env:KEY}"},
    }
    mcp("uninstall", "cursor")
    assert snapshot(home) == before


def test_config_prints_remote_servers_too(mcp: Mcp):
    done = mcp("config", "codex", "--url", "http://localhost:8765/mcp", "--header", "Authorization: Bearer ${T}")
    assert tomllib.loads(done.stdout)["mcp_servers"]["satchel"] == {
        "url": "http://localhost:8765/mcp",
        "bearer_token_env_var": "T",
        **FURTHER["codex"],
    }
    assert "unencrypted" not in done.stderr


def test_continue_gets_a_file_for_the_server(mcp: Mcp, tmp_path: Path):
    place = tmp_path / ".continue/mcpServers/work.yaml"
    before = snapshot(tmp_path)
    done = mcp("install", "continue", "--name", "work", "--db", "/srv/ö: notes.db")
    assert done.stdout == f"added work to Continue: {place}\n"
    assert "cn --mcp" in done.stderr
    assert place.read_text().splitlines()[1:] == [
        'name: "work"',
        "version: 1.0.0",
        "schema: v1",
        "mcpServers:",
        '  - name: "work"',
        f'    command: "{Path(sys.executable).with_name("satchel")}"',
        '    args: ["mcp", "--db", "/srv/ö: notes.db"]',
        "    connectionTimeout: 30000",
    ]
    assert "already set up" in mcp("install", "continue", "--name", "work", "--db", "/srv/ö: notes.db").stdout
    assert mcp("install", "continue", "--name", "work").stdout == f"updated work in Continue: {place}\n"
    shown = mcp("uninstall", "continue", "--name", "work", "--dry-run").stdout
    assert shown.splitlines()[:2] == [f"--- {place}", "+++ /dev/null"]
    mcp("uninstall", "continue", "--name", "work")
    assert snapshot(tmp_path) == before
    assert not (tmp_path / ".continue").exists()


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_a_file_of_continue_that_satchel_did_not_write_is_left_alone(mcp: Mcp, tmp_path: Path, command: str):
    place = write(tmp_path / ".continue/mcpServers/satchel.yaml", "mcpServers:\n  - name: mine\n")
    line = complaint(mcp(command, "continue"))
    assert f"{place}: line 1: Satchel did not write this file" in line
    assert place.read_text() == "mcpServers:\n  - name: mine\n"


def test_a_record_that_cannot_be_written_is_told_and_stops_nothing(mcp: Mcp, home: Path):
    write(home / ".config" / "satchel", "a file")
    done = mcp("install", "cursor")
    assert done.returncode == 0
    assert "cannot be written (" in done.stderr
    assert "so uninstall will leave the backup" in done.stderr
    assert mcp("uninstall", "cursor").stdout.startswith("removed satchel from Cursor")


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
    entry = {"command": command, "args": ["mcp", "--project", "shop"]}
    for client in (None, "claude-code", "claude-desktop", "cursor", "gemini", "cline", "windsurf", "vscode", "zed"):
        done = mcp("config", *([client] if client else []), "--project", "shop")
        given = {**entry, "args": [*entry["args"], *OPTIONS.get(client or "", [])], **FURTHER.get(client or "", {})}
        assert json.loads(done.stdout) == {KEYS.get(client or "", "mcpServers"): {"satchel": given}}
    assert tomllib.loads(mcp("config", "codex", "--project", "shop", "--name", "mine").stdout) == {
        "mcp_servers": {"mine": {**entry, **FURTHER["codex"]}}
    }
    assert json.loads(mcp("config", "opencode").stdout) == {
        "mcp": {"satchel": {"type": "local", "command": [command, "mcp"], "timeout": 30_000}}
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
        (("install", "cursor", "--local", "--db", "/srv/notes.db"), "is outside this project"),
        (("install", "cursor", "--local", "--db", "../notes.db"), "is outside this project"),
        (("install", "cursor", "--local", "--db", "postgresql://ana:hunter2@db/x"), "--db contains a password"),
        (("install", "cursor", "--local", "--db", ":memory:"), "cannot use a :memory: store"),
        (("install", "cursor", "--required"), "Cursor cannot require a server"),
        (("install", "cursor", "--header", "X-Key: ${A}"), "--header needs --url"),
        (
            ("install", "cursor", "--url", "https://x.test/mcp", "--db", "x.db"),
            "--db does not apply to a server at",
        ),
        (("install", "cursor", "--url", "https://x.test/mcp", "--tools", "core"), "--tools does not apply"),
        (("install", "cursor", "--url", "https://ana:hunter2@x.test/mcp"), "--url contains a secret"),
        (
            ("install", "cursor", "--url", "https://x.test/mcp", "--header", "Authorization: Bearer hunter2"),
            "put that in an environment variable",
        ),
        (("config", "claude-desktop", "--url", "https://x.test/mcp"), "under Connectors"),
        (("install", "zed", "--url", "https://x.test", "--header", "K: ${A}"), "Zed cannot take the header K"),
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
from satchel.cli.clients.entry import Fields
path, first = Path(sys.argv[1]), int(sys.argv[2])
sys.stdin.readline()
for number in range(first, first + 25):
    entry = Fields(f"s{number}", {"command": "x", "args": ["mcp"]})
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
