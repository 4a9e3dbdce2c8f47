"""A client's servers led through the gateway and back, wherever it is interrupted."""

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

from satchel.cli.clients import detour as module
from satchel.cli.clients.client import CLIENTS, Surroundings
from satchel.cli.clients.detour import GATEWAY, Detour, holding_path, lead_back, lead_through
from satchel.errors import InputError, SatchelError

NOW = datetime(2026, 3, 9, 14, 5, 7)
EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS)

Place = Callable[..., Detour]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A client's file with a text, and the place of ours."""

    def made(client: str, content: str | bytes) -> Detour:
        path = tmp_path / "client" / ("config.toml" if CLIENTS[client].toml else "mcp.json")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return Detour(CLIENTS[client], path, tmp_path / "ours" / f"gateway-{client}.json")

    return made


def there(detour: Detour) -> dict[str, Any]:
    """The servers in a client's file, read by something else than ours."""
    text = detour.path.read_text(encoding="utf-8-sig")
    if detour.client.toml:
        return tomllib.loads(text).get("mcp_servers", {})
    plain = re.sub(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', lambda match: match[1] or "", text)
    return json.loads(re.sub(r",(\s*[}\]])", r"\1", plain)).get(detour.client.key, {})


def held(detour: Detour) -> dict[str, Any]:
    return json.loads(detour.ours.read_bytes())["mcpServers"] if detour.ours.exists() else {}


def install(detour: Detour, **options: Any) -> module.Led:
    return lead_through(detour, now=NOW, **options)[0]


def uninstall(detour: Detour) -> module.Returned:
    return lead_back(detour, now=NOW)[0]


@EVERY_CLIENT
def test_servers_go_behind_the_gateway_and_come_back_byte_for_byte(place: Place, client: str):
    text, moving, staying = SERVED[client]
    for content in in_every_form(text):
        detour = place(client, content)
        led = install(detour)
        assert (led.what, list(led.moved), list(led.staying)) == ("added", moving, staying)
        assert set(there(detour)) == {GATEWAY, *staying}
        assert there(detour)[GATEWAY]["args"] == ["gateway", "--config", str(detour.ours)]
        assert list(held(detour)) == moving
        assert stat.S_IMODE(detour.ours.stat().st_mode) == 0o600
        assert (b"\r\n" in detour.path.read_bytes()) == (b"\r\n" in content)

        done = detour.path.read_bytes(), detour.ours.read_bytes(), sorted(detour.path.parent.iterdir())
        assert install(detour).what == "unchanged"
        assert (detour.path.read_bytes(), detour.ours.read_bytes(), sorted(detour.path.parent.iterdir())) == done

        returned = uninstall(detour)
        assert (returned.what, list(returned.back), returned.taken, returned.edited) == ("removed", moving, (), ())
        assert detour.path.read_bytes() == content
        assert not detour.ours.exists()
        assert uninstall(detour).what == "absent"
        assert detour.path.read_bytes() == content


def test_the_gateway_is_told_what_each_client_calls_by_another_name(place: Place):
    detour = place("codex", SERVED["codex"][0])
    install(detour)
    assert held(detour) == {
        "context7": {"command": "npx", "args": ["-y", "ctx"], "env": {"LEVEL": "debug"}},
        "far away": {
            "type": "http",
            "url": "https://far.example.test/mcp",
            "headers": {"Authorization": "Bearer ${FAR_TOKEN}"},
        },
    }
    # Codex hands on no variable that it is not told of.
    assert there(detour)[GATEWAY]["env_vars"] == ["FAR_TOKEN"]
    later = '\n[mcp_servers.later]\ncommand = "x"\nenv_vars = ["LATER", "FAR_TOKEN"]\n'
    detour.path.write_text(detour.path.read_text() + later)
    install(detour)
    assert there(detour)[GATEWAY]["env_vars"] == ["FAR_TOKEN", "LATER"]
    vscode = place("vscode", SERVED["vscode"][0])
    install(vscode)
    assert there(vscode)[GATEWAY]["type"] == "stdio"
    assert held(vscode)["web"] == {"type": "http", "url": "https://b.example.test/mcp"}


@pytest.mark.parametrize(
    ("rules", "staying"),
    [
        ('{"excluded": ["one"]}', {"one": "mcp.excluded names it"}),
        ('{"allowed": ["one", "two"]}', {"three": "mcp.allowed does not name it"}),
        ('{"serverCommand": "x"}', {}),
        ("5", {}),
    ],
)
def test_what_gemini_may_not_start_the_gateway_does_not_start_either(
    place: Place, rules: str, staying: dict[str, str]
):
    servers = ", ".join(f'"{name}": {{"command": "x"}}' for name in ("one", "two", "three"))
    led = install(place("gemini", f'{{"mcp": {rules}, "mcpServers": {{{servers}}}}}'))
    assert led.staying == staying
    assert set(led.moved) == {"one", "two", "three"} - set(staying)


@EVERY_CLIENT
def test_only_the_servers_named_are_moved(place: Place, client: str):
    text, moving, staying = SERVED[client]
    detour = place(client, text)
    assert list(install(detour, only=[moving[1]]).moved) == [moving[1]]
    assert set(there(detour)) == {GATEWAY, moving[0], *staying}
    assert install(detour, only=[moving[1]]).what == "unchanged"
    assert list(install(detour).moved) == [moving[0]]
    assert set(there(detour)) == {GATEWAY, *staying}
    assert set(held(detour)) == set(moving)
    uninstall(detour)
    assert set(there(detour)) == {*moving, *staying}


def changed(detour: Detour, old: str, new: str) -> None:
    text = detour.path.read_bytes().decode()
    assert text.count(old) == 1
    detour.path.write_bytes(text.replace(old, new).encode())


NEW_ENTRY = {True: '\n[mcp_servers.new]\ncommand = "new"\n', False: ' "new": {"command": "new"}, '}


def with_new_server(detour: Detour) -> None:
    """As someone would add one by hand."""
    text = detour.path.read_bytes().decode()
    if detour.client.toml:
        text = text.rstrip("\n") + "\n" + NEW_ENTRY[True]
    else:
        text = re.sub(r'("(?:mcpServers|servers)": ?\{)(?=[^}])', r"\1" + NEW_ENTRY[False], text, count=1)
    detour.path.write_bytes(text.encode())


@EVERY_CLIENT
def test_what_came_since_is_moved_too_and_all_of_it_comes_back_as_it_was_written(place: Place, client: str):
    text, moving, staying = SERVED[client]
    detour = place(client, text)
    before = there(detour)
    install(detour)
    with_new_server(detour)
    led = install(detour)
    assert (led.what, list(led.moved), set(led.behind)) == ("updated", ["new"], {*moving, "new"})
    assert set(there(detour)) == {GATEWAY, *staying}
    assert held(detour)["new"] == {"command": "new"}
    sources = json.loads(detour.ours.read_bytes())["satchel"]["sources"]
    uninstall(detour)
    assert there(detour) == {**before, "new": {"command": "new"}}
    for name in moving:
        assert sources[name].removesuffix("\n") in text
        assert sources[name] in detour.path.read_bytes().decode() + "\n"


@EVERY_CLIENT
def test_what_else_changed_in_the_file_stays(place: Place, client: str):
    text, moving, _ = SERVED[client]
    detour = place(client, text)
    install(detour)
    if detour.client.toml:
        changed(detour, 'model = "gpt-5"', 'model = "gpt-6"\neffort = "high"')
        expected = text.replace('model = "gpt-5"', 'model = "gpt-6"\neffort = "high"')
    else:
        detour.path.write_bytes(detour.path.read_bytes().replace(b"{", b'{ "theme": "dark", ', 1))
        expected = text.replace("{", '{ "theme": "dark", ', 1)
    assert list(uninstall(detour).back) == moving
    assert detour.path.read_bytes() == expected.encode()


def test_a_client_that_lays_its_file_out_anew_gets_its_servers_as_they_were(place: Place):
    text = SERVED["claude-code"][0]
    detour = place("claude-code", text)
    install(detour)
    detour.path.write_text(json.dumps(json.loads(detour.path.read_bytes()), indent=4))
    uninstall(detour)
    assert json.loads(detour.path.read_bytes()) == json.loads(text)
    servers = text[text.index('"mcpServers"') : text.index('  "projects"')]
    assert servers.rstrip(",\n }") in detour.path.read_text()


@EVERY_CLIENT
def test_a_server_of_the_same_name_that_came_meanwhile_wins_and_ours_is_kept(place: Place, client: str):
    text, moving, _ = SERVED[client]
    detour = place(client, text)
    install(detour)
    ours = detour.ours.read_bytes()
    with_new_server(detour)
    detour.path.write_bytes(
        detour.path.read_bytes()
        .replace(b'"new": {', f'"{moving[0]}": {{'.encode())
        .replace(b"mcp_servers.new", f"mcp_servers.{moving[0]}".encode())
    )
    returned, _, aside = lead_back(detour, now=NOW)
    assert (returned.taken, returned.back) == ((moving[0],), (moving[1],))
    assert there(detour)[moving[0]] == {"command": "new"}
    assert GATEWAY not in there(detour)
    assert aside is not None
    assert aside.read_bytes() == ours
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600


def test_one_that_replaces_another_behind_the_gateway_leaves_a_copy_of_it(place: Place):
    detour = place("cursor", '{"mcpServers": {"a": {"command": "old"}}}')
    install(detour)
    changed(detour, '{"mcpServers": {', '{"mcpServers": {"a": {"command": "new"}, ')
    led = install(detour)
    assert (led.replaced, held(detour)) == (("a",), {"a": {"command": "new"}})
    (copy,) = detour.ours.parent.glob("*.satchel-backup-*")
    assert json.loads(copy.read_bytes())["mcpServers"] == {"a": {"command": "old"}}
    uninstall(detour)
    assert there(detour) == {"a": {"command": "new"}}


def test_what_was_edited_in_our_file_is_told_and_kept(place: Place):
    text = '{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}'
    detour = place("cursor", text)
    install(detour)
    document = json.loads(detour.ours.read_bytes())
    document["mcpServers"] |= {"a": {"command": "edited"}, "added": {"command": "x"}}
    detour.ours.write_text(json.dumps(document))
    returned, _, aside = lead_back(detour, now=NOW)
    assert returned.edited == ("a", "added")
    assert detour.path.read_text() == text
    assert aside is not None
    assert json.loads(aside.read_bytes()) == document


def test_additions_to_the_gateways_entry_stay_while_more_goes_behind_it(place: Place):
    detour = place("cursor", '{"mcpServers": {"a": {"command": "a"}}}')
    install(detour)
    changed(detour, '{"satchel-gateway": {', '{"b": {"command": "b"}, "satchel-gateway": {"timeout": 9, ')
    install(detour, options=["--db", "/x.db"])
    assert set(there(detour)) == {GATEWAY}
    assert there(detour)[GATEWAY]["timeout"] == 9
    assert there(detour)[GATEWAY]["args"][-2:] == ["--db", "/x.db"]
    uninstall(detour)
    assert list(there(detour)) == ["b", "a"]


@EVERY_CLIENT
def test_a_gateway_taken_out_by_hand_loses_nothing(place: Place, client: str):
    text, moving, staying = SERVED[client]
    for again in (install, uninstall):
        detour = place(client, text)
        before = there(detour)
        install(detour)
        bare = detour.client.without_entry(detour.path.read_bytes().decode(), GATEWAY).text
        detour.path.write_bytes(bare.encode())
        again(detour)
        assert set(there(detour)) == ({GATEWAY, *staying} if again is install else {*moving, *staying})
        assert set(held(detour)) == (set(moving) if again is install else set())
        uninstall(detour)
        assert there(detour) == before


@EVERY_CLIENT
def test_a_clients_file_that_is_gone_is_made_again(place: Place, client: str):
    text, moving, _ = SERVED[client]
    detour = place(client, text)
    before = there(detour)
    install(detour)
    detour.path.unlink()
    uninstall(detour)
    assert there(detour) == {name: before[name] for name in moving}


class PowerCutError(BaseException):
    """Nothing that anyone would catch."""


@EVERY_CLIENT
@pytest.mark.parametrize("again", [install, uninstall])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("interrupted", [install, uninstall])
def test_wherever_it_is_interrupted_nothing_is_lost_and_another_run_mends_it(
    place: Place, monkeypatch, client: str, interrupted: Any, step: int, after: bool, again: Any
):
    text, moving, staying = SERVED[client]
    detour = place(client, text)
    before = there(detour)
    if interrupted is uninstall:
        install(detour)
    steps = 0
    move = Path.replace

    def failing(path: Path, target: Path) -> Path:
        nonlocal steps
        steps += 1
        if steps == step and not after:
            raise PowerCutError
        moved = move(path, target)
        if steps == step:
            raise PowerCutError
        return moved

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", failing)
        with pytest.raises(PowerCutError):
            interrupted(detour)
    assert steps == step
    assert set(before) <= set(there(detour)) | set(held(detour))

    again(detour)
    if again is install:
        assert set(there(detour)) == {GATEWAY, *staying}
        assert set(held(detour)) == set(moving)
        uninstall(detour)
    assert detour.path.read_bytes() == text.encode()
    assert not detour.ours.exists()


def test_what_was_written_before_an_interruption_is_not_written_again(place: Place):
    detour = place("cursor", SERVED["cursor"][0])
    text = detour.path.read_bytes()
    install(detour)
    detour.path.write_bytes(text)
    install(detour)
    assert [path.name for path in detour.ours.parent.iterdir()] == ["gateway-cursor.json"]


def test_a_gateway_with_nothing_behind_it_is_not_put_anywhere(place: Place):
    detour = place("cursor", '{"mcpServers": {"a": {"command": "a"}}}')
    install(detour)
    detour.path.write_text('{"mcpServers": {"a": {"command": "a", "disabled": true}}}')
    led = install(detour)
    assert (led.what, led.behind, list(led.staying)) == ("unchanged", (), ["a"])
    assert GATEWAY not in there(detour)


def test_a_disk_that_is_full_leaves_the_clients_file_alone(place: Place, monkeypatch):
    detour = place("cursor", SERVED["cursor"][0])
    before = detour.path.read_bytes()

    def full(path: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(SatchelError, match=rf"{detour.ours} cannot be written: No space left on device; nothing"):
        install(detour)
    assert detour.path.read_bytes() == before
    assert [each.name for each in detour.path.parent.iterdir()] == ["mcp.json"]
    assert list(detour.ours.parent.iterdir()) == []


def test_satchel_itself_stays_whichever_way_it_is_started(place: Place):
    own: list[dict[str, Any]] = [
        {"command": "satchel", "args": ["mcp"]},
        {"command": "C:\\tools\\satchel.exe", "args": ["mcp", "--project", "x"]},
        {"command": "/usr/bin/python3", "args": ["-m", "satchel", "--db", "x", "mcp"]},
        {"command": "uvx", "args": ["satchel", "gateway", "--config", "mine.json"]},
    ]
    servers = {f"s{number}": value for number, value in enumerate(own)}
    detour = place("cursor", json.dumps({"mcpServers": servers}))
    assert install(detour).what == "unchanged"
    assert not detour.ours.exists()
    with pytest.raises(InputError, match="--only 's0' is Satchel itself"):
        install(detour, only=["s0"])
    others = {"satchel-like": {"command": "satchel", "args": ["stats"]}, "x": {"command": "serve", "args": ["mcp"]}}
    detour = place("cursor", json.dumps({"mcpServers": servers | others}))
    assert list(install(detour).moved) == list(others)


def assert_refused(attempt: Callable[[Detour], object], detour: Detour, reason: str) -> None:
    before = detour.path.read_bytes()
    with pytest.raises(InputError) as caught:
        attempt(detour)
    assert reason in str(caught.value)
    assert detour.path.read_bytes() == before


def test_an_entry_of_the_gateways_name_that_is_not_ours_is_refused(place: Place):
    for value in ({"command": "x"}, {"command": "satchel", "args": ["gateway", "--config", "/mine.json"]}):
        detour = place("cursor", json.dumps({"mcpServers": {GATEWAY: value, "a": {"command": "a"}}}))
        for attempt in (install, uninstall):
            assert_refused(attempt, detour, f"does not read {detour.ours}")
        assert not detour.ours.exists()


def test_a_gateway_whose_file_is_gone_is_told_where_a_copy_is(place: Place):
    detour = place("cursor", '{"mcpServers": {"a": {"command": "a"}}}')
    install(detour)
    kept = detour.ours.rename(detour.ours.with_name(f"{detour.ours.name}.satchel-backup-20260101-000000"))
    detour.ours.with_name(f"{detour.ours.name}.satchel-backup-20270101-000000").touch()
    for attempt in (install, uninstall):
        assert_refused(attempt, detour, f"rename {kept} to it")
    kept.unlink()
    assert_refused(uninstall, detour, "take the entry out by --name satchel-gateway without --gateway")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"mcpServers": {}}', b'{"mcpServers": 1, "satchel": {}}', b"\xff"]
)
def test_a_broken_file_of_ours_is_refused_and_left_alone(place: Place, content: bytes):
    detour = place("cursor", '{"mcpServers": {"a": {"command": "a"}}}')
    install(detour)
    detour.ours.write_bytes(content)
    for attempt in (install, uninstall):
        assert_refused(attempt, detour, f"{detour.ours} cannot be understood: ")
    assert detour.ours.read_bytes() == content


def test_a_name_that_is_not_there_is_refused_with_those_that_are(place: Place):
    detour = place("cursor", '{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}')
    assert_refused(lambda at: install(at, only=["c"]), detour, "there is no server 'c'; there are: a, b")


def test_what_is_only_planned_is_not_done(place: Place):
    detour = place("codex", SERVED["codex"][0])
    led, change = lead_through(detour, now=None)
    assert (led.what, change.after != change.before) == ("added", True)
    assert detour.path.read_bytes() == SERVED["codex"][0].encode()
    assert not detour.ours.exists()
    install(detour)
    done = detour.path.read_bytes(), detour.ours.read_bytes()
    returned, change, aside = lead_back(detour, now=None)
    assert (returned.what, change.after, aside) == ("removed", SERVED["codex"][0].encode(), None)
    assert (detour.path.read_bytes(), detour.ours.read_bytes()) == done


def test_our_file_is_named_after_the_client_and_after_any_file_but_the_usual(tmp_path: Path):
    around = Surroundings("linux", {}, tmp_path)
    cursor = CLIENTS["cursor"]
    usual = cursor.file(around)

    def named(path: Path, around: Surroundings = around) -> str:
        return holding_path(tmp_path, "cursor", cursor, path, around).name

    assert named(usual) == "gateway-cursor.json"
    assert named(tmp_path / ".cursor" / "x" / ".." / "mcp.json") == "gateway-cursor.json"
    first, second = named(tmp_path / "a" / "mcp.json"), named(tmp_path / "b" / "mcp.json")
    assert first != second
    assert re.fullmatch(r"gateway-cursor-[0-9a-f]{12}\.json", first)
    # Two homes of one client are two files, whichever of them the environment names just now.
    codex = CLIENTS["codex"]
    elsewhere = around._replace(environment={"CODEX_HOME": str(tmp_path / "work")})
    places = {holding_path(tmp_path, "codex", codex, codex.file(each), each).name for each in (around, elsewhere)}
    assert len(places) == 2
