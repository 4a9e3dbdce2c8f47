"""Where each client keeps its configuration, on each platform."""

from pathlib import Path

import pytest

from satchel.cli.clients.client import CLIENTS, Surroundings, surroundings
from satchel.errors import InputError
from tables import each_row

HOME = Path("/home/ana")
LINUX = Surroundings("linux", {}, HOME)
MAC = Surroundings("darwin", {"XDG_CONFIG_HOME": "/ignored"}, HOME)
WINDOWS = Surroundings("win32", {"APPDATA": "/roaming"}, HOME)


@each_row(
    ("client", "around", "place"),
    [
        ("claude-code", LINUX, "/home/ana/.claude.json"),
        ("claude-code", LINUX._replace(environment={"CLAUDE_CONFIG_DIR": "/c"}), "/c/.claude.json"),
        ("claude-code", LINUX._replace(environment={"CLAUDE_CONFIG_DIR": ""}), "/home/ana/.claude.json"),
        ("claude-desktop", LINUX, "/home/ana/.config/Claude/claude_desktop_config.json"),
        (
            "claude-desktop",
            LINUX._replace(environment={"XDG_CONFIG_HOME": "/x"}),
            "/x/Claude/claude_desktop_config.json",
        ),
        ("claude-desktop", MAC, "/home/ana/Library/Application Support/Claude/claude_desktop_config.json"),
        ("claude-desktop", WINDOWS, "/roaming/Claude/claude_desktop_config.json"),
        (
            "claude-desktop",
            WINDOWS._replace(environment={}),
            "/home/ana/AppData/Roaming/Claude/claude_desktop_config.json",
        ),
        ("cursor", LINUX, "/home/ana/.cursor/mcp.json"),
        ("cursor", WINDOWS, "/home/ana/.cursor/mcp.json"),
        ("codex", LINUX, "/home/ana/.codex/config.toml"),
        ("codex", LINUX._replace(environment={"CODEX_HOME": "/c"}), "/c/config.toml"),
        ("vscode", LINUX, "/home/ana/.config/Code/User/mcp.json"),
        ("vscode", LINUX._replace(environment={"XDG_CONFIG_HOME": "/x"}), "/x/Code/User/mcp.json"),
        ("vscode", MAC, "/home/ana/Library/Application Support/Code/User/mcp.json"),
        ("vscode", WINDOWS, "/roaming/Code/User/mcp.json"),
        ("gemini", LINUX, "/home/ana/.gemini/settings.json"),
        ("gemini", LINUX._replace(environment={"GEMINI_CLI_HOME": "/g"}), "/g/.gemini/settings.json"),
        ("opencode", LINUX, "/home/ana/.config/opencode/opencode.json"),
        ("opencode", LINUX._replace(environment={"XDG_CONFIG_HOME": "/x"}), "/x/opencode/opencode.json"),
        ("opencode", WINDOWS, "/home/ana/.config/opencode/opencode.json"),
        ("cline", LINUX, "/home/ana/.cline/data/settings/cline_mcp_settings.json"),
        (
            "cline",
            LINUX._replace(environment={"CLINE_DIR": "/c"}),
            "/c/data/settings/cline_mcp_settings.json",
        ),
        ("cline", LINUX._replace(environment={"CLINE_DATA_DIR": "/d"}), "/d/settings/cline_mcp_settings.json"),
        ("cline", LINUX._replace(environment={"CLINE_MCP_SETTINGS_PATH": "/m.json"}), "/m.json"),
        ("continue", LINUX, "/home/ana/.continue/mcpServers/satchel.yaml"),
        ("windsurf", MAC, "/home/ana/.codeium/windsurf/mcp_config.json"),
        ("zed", LINUX, "/home/ana/.config/zed/settings.json"),
        ("zed", MAC._replace(environment={}), "/home/ana/.config/zed/settings.json"),
        ("zed", WINDOWS, "/roaming/Zed/settings.json"),
    ],
)
def test_each_client_has_its_place(client: str, around: Surroundings, place: str):
    assert CLIENTS[client].file(around) == Path(place)


@pytest.mark.parametrize(
    ("client", "place"),
    [
        ("claude-code", ".mcp.json"),
        ("cursor", ".cursor/mcp.json"),
        ("codex", ".codex/config.toml"),
        ("vscode", ".vscode/mcp.json"),
        ("gemini", ".gemini/settings.json"),
        ("opencode", "opencode.json"),
        ("continue", ".continue/mcpServers/satchel.yaml"),
        ("zed", ".zed/settings.json"),
    ],
)
def test_a_project_has_a_file_of_its_own(client: str, place: str):
    assert CLIENTS[client].file(LINUX, Path("/project")) == Path("/project", place)


@pytest.mark.parametrize("client", ["claude-desktop", "cline", "windsurf"])
def test_some_clients_have_no_files_in_projects(client: str):
    with pytest.raises(InputError, match="has no project file; leave out --local"):
        CLIENTS[client].file(LINUX, Path("/project"))


def test_a_file_with_the_other_name_is_used_if_it_is_the_only_one(tmp_path: Path):
    client = CLIENTS["opencode"]
    (tmp_path / "opencode.jsonc").write_text("{}")
    assert client.file(LINUX, tmp_path) == tmp_path / "opencode.jsonc"
    (tmp_path / "opencode.json").write_text("{}")
    assert client.file(LINUX, tmp_path) == tmp_path / "opencode.json"


def test_an_older_extension_of_cline_has_a_file_of_its_own(tmp_path: Path):
    around = Surroundings("linux", {}, tmp_path)
    shared = CLIENTS["cline"].file(around)
    own = tmp_path / ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
    for place, chosen in ((own, own), (shared, shared)):
        place.parent.mkdir(parents=True)
        place.write_text("{}")
        assert CLIENTS["cline"].file(around) == chosen


def test_continue_has_a_file_for_each_server():
    assert CLIENTS["continue"].file(LINUX, name="work") == HOME / ".continue" / "mcpServers" / "work.yaml"


def packaged(folder: Path, *packages: str) -> Surroundings:
    for package in packages:
        (folder / "Packages" / package).mkdir(parents=True)
    return Surroundings("win32", {"LOCALAPPDATA": str(folder), "APPDATA": str(folder / "roaming")}, HOME)


def test_a_packaged_claude_desktop_reads_its_file_from_the_package(tmp_path: Path):
    around = packaged(tmp_path, "Claude_pzs8sxrjxfjjc", "Unrelated_1")
    place = tmp_path / "Packages/Claude_pzs8sxrjxfjjc/LocalCache/Roaming/Claude/claude_desktop_config.json"
    assert CLIENTS["claude-desktop"].file(around) == place


def test_of_two_packages_the_one_with_a_file_is_meant_and_else_neither(tmp_path: Path):
    around = packaged(tmp_path, "Claude_a", "Claude_b")
    with pytest.raises(InputError, match="2 packages of Claude Desktop"):
        CLIENTS["claude-desktop"].file(around)
    place = tmp_path / "Packages/Claude_b/LocalCache/Roaming/Claude/claude_desktop_config.json"
    place.parent.mkdir(parents=True)
    place.write_text("{}")
    assert CLIENTS["claude-desktop"].file(around) == place


def test_a_home_that_is_no_folder_is_refused(monkeypatch):
    monkeypatch.setenv("HOME", "somewhere")
    with pytest.raises(InputError, match="HOME is not a folder"):
        surroundings()
