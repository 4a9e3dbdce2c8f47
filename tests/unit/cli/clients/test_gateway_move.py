"""A client's servers are moved behind the gateway and back, even if interrupted at any point."""

import json
import re
import stat
import tomllib
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from served_files import SERVED, in_every_form

from satchel.cli.clients import gateway_move as module
from satchel.cli.clients.client import CLIENTS, Surroundings
from satchel.cli.clients.gateway_move import (
    GATEWAY,
    GatewayMove,
    gateway_file_path,
    move_behind_gateway,
    restore_servers,
)
from satchel.cli.clients.receipt import Receipts
from satchel.errors import InputError, SatchelError

NOW = datetime(2026, 3, 9, 14, 5, 7)
EVERY_CLIENT = pytest.mark.parametrize("client", SERVED)

Place = Callable[..., GatewayMove]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A client's file with a text, and the place of ours."""

    def made(client: str, content: str | bytes) -> GatewayMove:
        path = tmp_path / "client" / ("config.toml" if CLIENTS[client].format == "toml" else "mcp.json")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        ours = tmp_path / "config" / "satchel" / f"gateway-{client}.json"
        return GatewayMove(CLIENTS[client], path, ours, Receipts(ours.parent, CLIENTS[client], path))

    return made


def there(move: GatewayMove) -> dict[str, Any]:
    """The servers in a client's file, read by something else than ours."""
    text = move.path.read_text(encoding="utf-8-sig")
    if move.client.format == "toml":
        return tomllib.loads(text).get("mcp_servers", {})
    plain = re.sub(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', lambda match: match[1] or "", text)
    return json.loads(re.sub(r",(\s*[}\]])", r"\1", plain)).get(move.client.key, {})


def held(move: GatewayMove) -> dict[str, Any]:
    return json.loads(move.ours.read_bytes())["mcpServers"] if move.ours.exists() else {}


def install(move: GatewayMove, **options: Any) -> module.Moved:
    return move_behind_gateway(move, now=NOW, **options)[0]


def uninstall(move: GatewayMove) -> module.Restored:
    return restore_servers(move, now=NOW)[0]


@EVERY_CLIENT
def test_servers_go_behind_the_gateway_and_come_back_byte_for_byte(place: Place, client: str):
    text, moving, staying = SERVED[client]
    for content in in_every_form(text):
        move = place(client, content)
        moved = install(move)
        assert (moved.what, list(moved.moved), list(moved.staying)) == ("added", moving, staying)
        assert set(there(move)) == {GATEWAY, *staying}
        entry = there(move)[GATEWAY]
        assert (entry.get("args") or entry["command"][1:]) == ["gateway", "--config", str(move.ours)]
        assert list(held(move)) == moving
        assert stat.S_IMODE(move.ours.stat().st_mode) == 0o600
        assert (b"\r\n" in move.path.read_bytes()) == (b"\r\n" in content)

        done = move.path.read_bytes(), move.ours.read_bytes(), sorted(move.path.parent.iterdir())
        assert install(move).what == "unchanged"
        assert (move.path.read_bytes(), move.ours.read_bytes(), sorted(move.path.parent.iterdir())) == done

        restored = uninstall(move)
        assert (restored.what, list(restored.back), restored.taken, restored.edited) == ("removed", moving, (), ())
        assert move.path.read_bytes() == content
        assert list(move.path.parent.iterdir()) == [move.path]
        assert not move.ours.parent.parent.exists()
        assert uninstall(move).what == "absent"
        assert move.path.read_bytes() == content


def test_the_gateway_is_told_what_each_client_calls_by_another_name(place: Place):
    move = place("codex", SERVED["codex"][0])
    install(move)
    assert held(move) == {
        "context7": {"command": "npx", "args": ["-y", "ctx"], "env": {"LEVEL": "debug"}},
        "far away": {
            "type": "http",
            "url": "https://far.example.test/mcp",
            "headers": {"Authorization": "Bearer ${FAR_TOKEN}"},
        },
    }
    # Codex hands on no variable that it is not told of.
    assert there(move)[GATEWAY]["env_vars"] == ["FAR_TOKEN"]
    later = '\n[mcp_servers.later]\ncommand = "x"\nenv_vars = ["LATER", "FAR_TOKEN"]\n'
    move.path.write_text(move.path.read_text() + later)
    install(move)
    assert there(move)[GATEWAY]["env_vars"] == ["FAR_TOKEN", "LATER"]
    vscode = place("vscode", SERVED["vscode"][0])
    install(vscode)
    assert there(vscode)[GATEWAY]["type"] == "stdio"
    assert held(vscode)["web"] == {"type": "http", "url": "https://b.example.test/mcp"}


@pytest.mark.parametrize(
    ("rules", "staying"),
    [
        ('{"excluded": ["one"]}', {"one": "mcp.excluded lists it"}),
        ('{"allowed": ["one", "two"]}', {"three": "mcp.allowed does not list it"}),
        ('{"serverCommand": "x"}', {}),
        ("5", {}),
    ],
)
def test_what_gemini_may_not_start_the_gateway_does_not_start_either(
    place: Place, rules: str, staying: dict[str, str]
):
    servers = ", ".join(f'"{name}": {{"command": "x"}}' for name in ("one", "two", "three"))
    moved = install(place("gemini", f'{{"mcp": {rules}, "mcpServers": {{{servers}}}}}'))
    assert moved.staying == staying
    assert set(moved.moved) == {"one", "two", "three"} - set(staying)


@EVERY_CLIENT
def test_only_the_servers_named_are_moved(place: Place, client: str):
    text, moving, staying = SERVED[client]
    move = place(client, text)
    assert list(install(move, only=[moving[1]]).moved) == [moving[1]]
    assert set(there(move)) == {GATEWAY, moving[0], *staying}
    assert install(move, only=[moving[1]]).what == "unchanged"
    assert list(install(move).moved) == [moving[0]]
    assert set(there(move)) == {GATEWAY, *staying}
    assert set(held(move)) == set(moving)
    uninstall(move)
    assert set(there(move)) == {*moving, *staying}


def changed(move: GatewayMove, old: str, new: str) -> None:
    text = move.path.read_bytes().decode()
    assert text.count(old) == 1
    move.path.write_bytes(text.replace(old, new).encode())


NEW_ENTRY = {True: '\n[mcp_servers.new]\ncommand = "new"\n', False: ' "new": {"command": "new"}, '}


def with_new_server(move: GatewayMove) -> None:
    """As someone would add one by hand."""
    text = move.path.read_bytes().decode()
    if move.client.format == "toml":
        text = text.rstrip("\n") + "\n" + NEW_ENTRY[True]
    else:
        text = re.sub(rf'("{move.client.key}": ?\{{)(?=[^}}])', r"\1" + NEW_ENTRY[False], text, count=1)
    move.path.write_bytes(text.encode())


@EVERY_CLIENT
def test_what_came_since_is_moved_too_and_all_of_it_comes_back_as_it_was_written(place: Place, client: str):
    text, moving, staying = SERVED[client]
    move = place(client, text)
    before = there(move)
    install(move)
    with_new_server(move)
    moved = install(move)
    assert (moved.what, list(moved.moved), set(moved.behind)) == ("updated", ["new"], {*moving, "new"})
    assert set(there(move)) == {GATEWAY, *staying}
    assert held(move)["new"] == {"command": "new"}
    sources = json.loads(move.ours.read_bytes())["satchel"]["sources"]
    uninstall(move)
    assert there(move) == {**before, "new": {"command": "new"}}
    for name in moving:
        assert sources[name].removesuffix("\n") in text
        assert sources[name] in move.path.read_bytes().decode() + "\n"


@EVERY_CLIENT
def test_what_else_changed_in_the_file_stays(place: Place, client: str):
    text, moving, _ = SERVED[client]
    move = place(client, text)
    install(move)
    if move.client.format == "toml":
        changed(move, 'model = "gpt-5"', 'model = "gpt-6"\neffort = "high"')
        expected = text.replace('model = "gpt-5"', 'model = "gpt-6"\neffort = "high"')
    else:
        move.path.write_bytes(move.path.read_bytes().replace(b"{", b'{ "theme": "dark", ', 1))
        expected = text.replace("{", '{ "theme": "dark", ', 1)
    assert list(uninstall(move).back) == moving
    assert move.path.read_bytes() == expected.encode()


def test_a_client_that_lays_its_file_out_anew_gets_its_servers_as_they_were(place: Place):
    text = SERVED["claude-code"][0]
    move = place("claude-code", text)
    install(move)
    move.path.write_text(json.dumps(json.loads(move.path.read_bytes()), indent=4))
    uninstall(move)
    assert json.loads(move.path.read_bytes()) == json.loads(text)
    servers = text[text.index('"mcpServers"') : text.index('  "projects"')]
    assert servers.rstrip(",\n }") in move.path.read_text()


@EVERY_CLIENT
def test_a_server_of_the_same_name_that_came_meanwhile_wins_and_ours_is_kept(place: Place, client: str):
    text, moving, _ = SERVED[client]
    move = place(client, text)
    install(move)
    ours = move.ours.read_bytes()
    with_new_server(move)
    move.path.write_bytes(
        move.path.read_bytes()
        .replace(b'"new": {', f'"{moving[0]}": {{'.encode())
        .replace(b"mcp_servers.new", f"mcp_servers.{moving[0]}".encode())
    )
    restored, _, _, backup = restore_servers(move, now=NOW)
    assert (restored.taken, restored.back) == ((moving[0],), (moving[1],))
    assert there(move)[moving[0]] == {"command": "new"}
    assert GATEWAY not in there(move)
    assert backup is not None
    assert backup.read_bytes() == ours
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600


def test_one_that_replaces_another_behind_the_gateway_leaves_a_copy_of_it(place: Place):
    move = place("cursor", '{"mcpServers": {"a": {"command": "old"}}}')
    install(move)
    changed(move, '{"mcpServers": {', '{"mcpServers": {"a": {"command": "new"}, ')
    moved = install(move)
    assert (moved.replaced, held(move)) == (("a",), {"a": {"command": "new"}})
    (copy,) = move.ours.parent.glob("*.satchel-backup-*")
    assert json.loads(copy.read_bytes())["mcpServers"] == {"a": {"command": "old"}}
    uninstall(move)
    assert there(move) == {"a": {"command": "new"}}


def test_what_was_edited_in_our_file_is_told_and_kept(place: Place):
    text = '{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}'
    move = place("cursor", text)
    install(move)
    document = json.loads(move.ours.read_bytes())
    document["mcpServers"] |= {"a": {"command": "edited"}, "added": {"command": "x"}}
    move.ours.write_text(json.dumps(document))
    restored, _, _, backup = restore_servers(move, now=NOW)
    assert restored.edited == ("a", "added")
    assert move.path.read_text() == text
    assert backup is not None
    assert json.loads(backup.read_bytes()) == document


def test_additions_to_the_gateways_entry_stay_while_more_goes_behind_it(place: Place):
    move = place("cursor", '{"mcpServers": {"a": {"command": "a"}}}')
    install(move)
    changed(move, '{"satchel-gateway": {', '{"b": {"command": "b"}, "satchel-gateway": {"timeout": 9, ')
    install(move, options=["--db", "/x.db"])
    assert set(there(move)) == {GATEWAY}
    assert there(move)[GATEWAY]["timeout"] == 9
    assert there(move)[GATEWAY]["args"][-2:] == ["--db", "/x.db"]
    uninstall(move)
    assert list(there(move)) == ["b", "a"]


@EVERY_CLIENT
def test_a_gateway_taken_out_by_hand_loses_nothing(place: Place, client: str):
    text, moving, staying = SERVED[client]
    for again in (install, uninstall):
        move = place(client, text)
        before = there(move)
        install(move)
        bare = move.client.without_entry(move.path.read_bytes().decode(), GATEWAY).text
        move.path.write_bytes(bare.encode())
        again(move)
        assert set(there(move)) == ({GATEWAY, *staying} if again is install else {*moving, *staying})
        assert set(held(move)) == (set(moving) if again is install else set())
        uninstall(move)
        assert there(move) == before


@EVERY_CLIENT
def test_a_clients_file_that_is_gone_is_made_again(place: Place, client: str):
    text, moving, _ = SERVED[client]
    move = place(client, text)
    before = there(move)
    install(move)
    move.path.unlink()
    uninstall(move)
    assert there(move) == {name: before[name] for name in moving}


class PowerCutError(BaseException):
    """Nothing that anyone would catch."""


@EVERY_CLIENT
@pytest.mark.parametrize("again", [install, uninstall])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("interrupted", [install, uninstall])
def test_wherever_it_is_interrupted_nothing_is_lost_and_another_run_mends_it(
    place: Place, monkeypatch, client: str, interrupted: Any, step: int, after: bool, again: Any
):
    text, moving, staying = SERVED[client]
    move = place(client, text)
    before = there(move)
    if interrupted is uninstall:
        install(move)
    steps = 0

    def failing(change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*arguments: Any, **options: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == step and not after:
                raise PowerCutError
            done = change(*arguments, **options)
            if steps == step:
                raise PowerCutError
            return done

        return changed

    with monkeypatch.context() as patched:
        for name in ("replace", "unlink"):
            patched.setattr(Path, name, failing(getattr(Path, name)))
        with pytest.raises(PowerCutError):
            interrupted(move)
    assert steps >= step
    assert set(before) <= set(there(move)) | set(held(move))

    again(move)
    if again is install:
        assert set(there(move)) == {GATEWAY, *staying}
        assert set(held(move)) == set(moving)
        uninstall(move)
    assert move.path.read_bytes() == text.encode()
    assert not move.ours.exists()


def test_what_was_written_before_an_interruption_is_not_written_again(place: Place):
    move = place("cursor", SERVED["cursor"][0])
    text = move.path.read_bytes()
    install(move)
    move.path.write_bytes(text)
    install(move)
    assert [path.name for path in move.ours.parent.glob("gateway-*")] == ["gateway-cursor.json"]


def test_a_gateway_with_nothing_behind_it_is_not_put_anywhere(place: Place):
    move = place("cursor", '{"mcpServers": {"a": {"command": "a"}}}')
    install(move)
    move.path.write_text('{"mcpServers": {"a": {"command": "a", "disabled": true}}}')
    moved = install(move)
    assert (moved.what, moved.behind, list(moved.staying)) == ("unchanged", (), ["a"])
    assert GATEWAY not in there(move)


def test_a_disk_that_is_full_leaves_the_clients_file_alone(place: Place, monkeypatch):
    move = place("cursor", SERVED["cursor"][0])
    before = move.path.read_bytes()

    def full(path: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(SatchelError, match=rf"{move.ours} cannot be written: No space left on device; nothing"):
        install(move)
    assert move.path.read_bytes() == before
    assert [each.name for each in move.path.parent.iterdir()] == ["mcp.json"]
    assert list(move.ours.parent.iterdir()) == []


def test_satchel_itself_stays_whichever_way_it_is_started(place: Place):
    own: list[dict[str, Any]] = [
        {"command": "satchel", "args": ["mcp"]},
        {"command": "C:\\tools\\satchel.exe", "args": ["mcp", "--project", "x"]},
        {"command": "/usr/bin/python3", "args": ["-m", "satchel", "--db", "x", "mcp"]},
        {"command": "uvx", "args": ["satchel", "gateway", "--config", "mine.json"]},
    ]
    servers = {f"s{number}": value for number, value in enumerate(own)}
    move = place("cursor", json.dumps({"mcpServers": servers}))
    assert install(move).what == "unchanged"
    assert not move.ours.exists()
    with pytest.raises(InputError, match="--only 's0' is Satchel itself"):
        install(move, only=["s0"])
    others = {"satchel-like": {"command": "satchel", "args": ["stats"]}, "x": {"command": "serve", "args": ["mcp"]}}
    move = place("cursor", json.dumps({"mcpServers": servers | others}))
    assert list(install(move).moved) == list(others)


def assert_refused(attempt: Callable[[GatewayMove], object], move: GatewayMove, reason: str) -> None:
    before = move.path.read_bytes()
    with pytest.raises(InputError) as caught:
        attempt(move)
    assert reason in str(caught.value)
    assert move.path.read_bytes() == before


def test_an_entry_of_the_gateways_name_that_is_not_ours_is_refused(place: Place):
    for value in ({"command": "x"}, {"command": "satchel", "args": ["gateway", "--config", "/mine.json"]}):
        move = place("cursor", json.dumps({"mcpServers": {GATEWAY: value, "a": {"command": "a"}}}))
        for attempt in (install, uninstall):
            assert_refused(attempt, move, f"does not use {move.ours}")
        assert not move.ours.exists()


def test_a_gateway_whose_file_is_gone_is_told_where_a_copy_is(place: Place):
    move = place("cursor", '{"mcpServers": {"a": {"command": "a"}}}')
    install(move)
    kept = move.ours.rename(move.ours.with_name(f"{move.ours.name}.satchel-backup-20260101-000000"))
    move.ours.with_name(f"{move.ours.name}.satchel-backup-20270101-000000").touch()
    for attempt in (install, uninstall):
        assert_refused(attempt, move, f"rename {kept} to it")
    kept.unlink()
    assert_refused(uninstall, move, "remove the entry with --name satchel-gateway without --gateway")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"mcpServers": {}}', b'{"mcpServers": 1, "satchel": {}}', b"\xff"]
)
def test_a_broken_file_of_ours_is_refused_and_left_alone(place: Place, content: bytes):
    move = place("cursor", '{"mcpServers": {"a": {"command": "a"}}}')
    install(move)
    move.ours.write_bytes(content)
    for attempt in (install, uninstall):
        assert_refused(attempt, move, f"{move.ours} is invalid: ")
    assert move.ours.read_bytes() == content


def test_a_name_that_is_not_there_is_refused_with_those_that_are(place: Place):
    move = place("cursor", '{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}')
    assert_refused(lambda at: install(at, only=["c"]), move, "there is no server 'c'; there are: a, b")


def test_what_is_only_planned_is_not_done(place: Place):
    move = place("codex", SERVED["codex"][0])
    moved, change = move_behind_gateway(move, now=None)
    assert (moved.what, change.after != change.before) == ("added", True)
    assert move.path.read_bytes() == SERVED["codex"][0].encode()
    assert not move.ours.exists()
    install(move)
    done = move.path.read_bytes(), move.ours.read_bytes()
    restored, change, removed, backup = restore_servers(move, now=None)
    assert (restored.what, change.after, removed, backup) == ("removed", SERVED["codex"][0].encode(), [], None)
    assert (move.path.read_bytes(), move.ours.read_bytes()) == done


def test_our_file_is_named_after_the_client_and_after_any_file_but_the_usual(tmp_path: Path):
    around = Surroundings("linux", {}, tmp_path)
    cursor = CLIENTS["cursor"]
    usual = cursor.file(around)

    def named(path: Path, around: Surroundings = around) -> str:
        return gateway_file_path(tmp_path, "cursor", cursor, path, around).name

    assert named(usual) == "gateway-cursor.json"
    assert named(tmp_path / ".cursor" / "x" / ".." / "mcp.json") == "gateway-cursor.json"
    first, second = named(tmp_path / "a" / "mcp.json"), named(tmp_path / "b" / "mcp.json")
    assert first != second
    assert re.fullmatch(r"gateway-cursor-[0-9a-f]{12}\.json", first)
    # Two homes of one client are two files, whichever of them the environment names just now.
    codex = CLIENTS["codex"]
    elsewhere = around._replace(environment={"CODEX_HOME": str(tmp_path / "work")})
    places = {
        gateway_file_path(tmp_path, "codex", codex, codex.file(each), each).name for each in (around, elsewhere)
    }
    assert len(places) == 2
