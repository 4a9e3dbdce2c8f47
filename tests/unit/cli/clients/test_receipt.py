"""An uninstall removes exactly what installs made, and nothing that anyone else wrote meanwhile."""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from served_files import SERVED, in_every_form

from satchel.cli.clients.client import CLIENTS
from satchel.cli.clients.config_file import Change, carry_out
from satchel.cli.clients.entry import Fields, ServerEntry
from satchel.cli.clients.receipt import Receipts

NOW = datetime(2026, 3, 9, 14, 5, 7)
EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS)


class Installing:
    """A client's file in a folder of its own, and Satchel's folder beside it."""

    def __init__(self, folder: Path, client: str) -> None:
        self.client = CLIENTS[client]
        self.path = folder / "client" / "deep" / "file"
        self.receipts = Receipts(folder / "ours", self.client, self.path)

    def entry(self, name: str, *args: str) -> Fields:
        return self.client.fields(ServerEntry(name, "/opt/satchel", ("mcp", *args)))

    def install(self, name: str = "satchel", *args: str) -> Change:
        def then(change: Change) -> None:
            if change.changes:
                self.receipts.installed(change, name)

        entry = self.entry(name, *args)
        return carry_out(self.path, lambda text: self.client.with_entry(text, entry), now=NOW, then=then)

    def uninstall(self, name: str = "satchel") -> Change:
        return carry_out(
            self.path,
            lambda text: self.client.without_entry(text, name),
            now=NOW,
            adjust=lambda change: self.receipts.undone(change, name),
            then=lambda change: self.receipts.uninstalled(change, name),
        )


Place = Callable[[str], Installing]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return lambda client: Installing(tmp_path, client)


def snapshot(folder: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@EVERY_CLIENT
def test_what_was_not_there_before_is_not_there_after(place: Place, tmp_path: Path, client: str):
    before = snapshot(tmp_path)
    for names in (["satchel"], ["satchel", "work"], ["work", "satchel"]):
        move = place(client)
        if move.client.file_per_server:
            names = names[:1]
        for name in names:
            move.install(name)
        for name in reversed(names) if names[0] == "work" else names:
            move.uninstall(name)
        assert snapshot(tmp_path) == before


@pytest.mark.parametrize("client", SERVED)
def test_a_file_is_given_back_byte_for_byte_without_backups(place: Place, tmp_path: Path, client: str):
    move = place(client)
    move.path.parent.mkdir(parents=True)
    for content in (
        *in_every_form(SERVED[client][0]),
        b"",
        b" \n",
        *([b"{}", b"{ }\n"] if client != "codex" else []),
    ):
        move.path.write_bytes(content)
        before = snapshot(tmp_path)
        move.install()
        move.install("satchel", "--project", "x")
        move.install("more")
        assert len(list(move.path.parent.iterdir())) == 4
        move.uninstall()
        move.uninstall("more")
        assert snapshot(tmp_path) == before


def test_a_file_that_the_client_wrote_anew_keeps_what_it_wrote(place: Place, tmp_path: Path):
    move = place("claude-code")
    move.path.parent.mkdir(parents=True)
    move.path.write_text('{"numStartups": 1}')
    move.install()
    document = json.loads(move.path.read_bytes())
    move.path.write_text(json.dumps({**document, "numStartups": 2}, indent=4))
    move.uninstall()
    assert json.loads(move.path.read_bytes()) == {"numStartups": 2}
    assert list(move.path.parent.iterdir()) == [move.path]


@pytest.mark.parametrize("client", ["claude-code", "codex", "zed"])
def test_a_file_that_satchel_made_stays_if_someone_else_uses_it(place: Place, client: str):
    move = place(client)
    move.install()
    other = move.entry("other")
    move.path.write_text(move.client.with_entry(move.path.read_text(), other).text)
    move.uninstall()
    assert move.client.form.entry_value(move.path.read_text(), "other", key=move.client.key) == other.all
    assert list(move.path.parent.iterdir()) == [move.path]


def test_a_file_that_satchel_made_goes_if_the_client_only_added_its_schema(place: Place, tmp_path: Path):
    before = snapshot(tmp_path)
    move = place("opencode")
    move.install()
    for schema in ('{ "$schema": "https://opencode.ai/config.json",', '{\n  "theme": "dark",'):
        move.install()
        move.path.write_text(move.path.read_text().replace("{", schema, 1))
        move.uninstall()
        assert move.path.exists() == ("theme" in schema)
        assert ("theme" in schema) or snapshot(tmp_path) == before
    assert json.loads(move.path.read_bytes()) == {"theme": "dark"}


def test_a_comment_in_a_file_that_satchel_made_is_kept(place: Place):
    move = place("zed")
    move.install()
    move.path.write_text(move.path.read_text().replace("{", "{ // mine", 1))
    move.uninstall()
    assert "// mine" in move.path.read_text()


@pytest.mark.parametrize("first", [None, '{"mcpServers": {"old": {}}}'])
@pytest.mark.parametrize("by_hand", ['{"mcpServers": {"new": {}}}', '{"mcpServers": {}}'])
def test_a_state_that_someone_made_by_hand_is_not_undone_by_a_later_uninstall(
    place: Place, first: str | None, by_hand: str
):
    move = place("cursor")
    move.path.parent.mkdir(parents=True)
    if first is not None:
        move.path.write_text(first)
    move.install()
    move.path.write_text(by_hand)
    move.install()
    move.uninstall()
    assert move.path.read_text() == by_hand
    assert list(move.path.parent.iterdir()) == [move.path]


def test_a_change_between_two_installs_is_kept(place: Place):
    move = place("cursor")
    move.path.parent.mkdir(parents=True)
    move.path.write_text('{"theme": 1}')
    move.install()
    move.path.write_text(move.path.read_text().replace('"theme": 1', '"theme": 2'))
    move.install("satchel", "--project", "x")
    move.uninstall()
    assert json.loads(move.path.read_bytes()) == {"theme": 2}
    assert list(move.path.parent.iterdir()) == [move.path]


def test_an_entry_that_the_user_edited_leaves_a_backup(place: Place):
    move = place("cursor")
    move.install()
    edited = move.path.read_text().replace('"command"', '"env": {"A": "1"}, "command"')
    move.path.write_text(edited)
    change = move.uninstall()
    assert change.backup is not None
    assert change.backup.read_text() == edited
    assert list(move.path.parent.iterdir()) == [change.backup]


def test_an_entry_removed_by_hand_leaves_the_backups_to_an_uninstall(place: Place, tmp_path: Path):
    move = place("cursor")
    move.path.parent.mkdir(parents=True)
    move.path.write_text("{}")
    before = snapshot(tmp_path)
    move.install()
    move.path.write_text("{}")
    assert move.uninstall().what == "absent"
    assert snapshot(tmp_path) == before


def test_a_file_that_is_gone_keeps_its_backups(place: Place):
    move = place("cursor")
    move.path.parent.mkdir(parents=True)
    move.path.write_text('{"theme": 1}')
    backup = move.install().backup
    move.path.unlink()
    move.uninstall()
    assert list(move.path.parent.iterdir()) == [backup]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"file": 1}'])
def test_a_record_that_cannot_be_read_does_not_stop_an_uninstall(place: Place, content: bytes):
    move = place("cursor")
    move.install()
    move.receipts.path.write_bytes(content)
    assert move.uninstall().what == "removed"
    assert json.loads(move.path.read_bytes()) == {"mcpServers": {}}


@pytest.mark.parametrize("relative", [False, True])
def test_a_link_to_nothing_is_one_again(place: Place, tmp_path: Path, relative: bool):
    move = place("cursor")
    move.path.parent.mkdir(parents=True)
    move.path.symlink_to(Path("kept/x.json") if relative else move.path.parent / "kept" / "x.json")
    before = snapshot(tmp_path)
    move = place("cursor")
    move.install()
    assert move.path.is_symlink()
    assert "satchel" in move.path.read_text()
    move.uninstall()
    assert snapshot(tmp_path) == before
    assert move.path.is_symlink()


def test_a_file_for_one_server_goes_without_a_record_too(place: Place):
    move = place("continue")
    move.install()
    move.receipts.path.unlink()
    move.uninstall()
    assert not move.path.exists()
