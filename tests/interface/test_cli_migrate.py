"""`satchel migrate`, `satchel forget --org X --purge` and a server's export, in a real process."""

import json
from pathlib import Path

import pytest
from complaint import complaint
from sample import contents, fill
from terminal import on_a_terminal

import satchel
from conftest import Cli


def snapshot(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def test_a_file_goes_to_a_server_and_the_result_is_a_table(cli: Cli, path: Path, pg_rows_url: str):
    fill(path)
    url = pg_rows_url.replace("postgres@", "postgres:hunter22@")
    done = cli("migrate", "--from", path, "--to", url)
    assert (done.returncode, done.stderr) == (0, "")
    first, head, *rows = done.stdout.splitlines()
    assert first == "added 6, updated 0, unchanged 0, newer in target 0, refused 0"
    assert head.split() == ["org", "kind", "source", "target", "checksum"]
    assert [row.split()[:4] for row in rows] == [
        ["default", kind, "6", "6"] for kind in ("memories", "history", "passages", "vectors")
    ]
    assert all(row.endswith("same") for row in rows)
    again = cli("migrate", "--from", path, "--to", url, "--json")
    told = json.loads(again.stdout)
    assert (told["same"], told["kept"], told["orgs"]) == (True, 6, ["default"])
    assert told["compared"][0]["source"] == told["compared"][0]["target"]
    assert "hunter22" not in done.stdout + again.stdout + again.stderr


def test_what_differs_is_named_and_ends_with_an_error(cli: Cli, path: Path, tmp_path: Path):
    memories = fill(path)
    other = tmp_path / "other.db"
    cli("migrate", "--from", path, "--to", other)
    with satchel.open(other) as bag:
        bag.update(memories[2].id, text="changed here")
        bag.forget(memories[3].id, purge=True)
    for options in (["--verify-only"], []):
        done = cli("migrate", "--from", path, "--to", other, *options)
        assert done.returncode == 1
        if options:
            line = next(line for line in done.stdout.splitlines() if "memories" in line)
            assert "1 missing, 1 other" in line
            assert memories[2].id in line
            assert memories[3].id in line
        else:
            assert f"{memories[2].id}: is newer in the target" in done.stderr
        assert f"{other} differs from {path}" in done.stderr
    with satchel.open(other) as bag:
        assert bag.get(memories[2].id).text == "changed here"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--from", "notes.db", "--to", "notes.db"), "the same store"),
        (("--from", "absent.db", "--to", "new.db"), "absent.db"),
        (("--from", "notes.db", "--to", "new.db", "--org", "oak"), "'oak'"),
        (("--from", "notes.db"), "--to"),
        (("--from", "notes.db", "--to", "postgresql://me:hunter22@127.0.0.1:1/x"), "127.0.0.1"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(
    cli: Cli, path: Path, tmp_path: Path, arguments: tuple[str, ...], named: str
):
    fill(path)
    before = snapshot(tmp_path)
    done = cli("migrate", *arguments)
    line = complaint(done, code=done.returncode)
    assert done.returncode in (1, 2)
    assert named in line
    assert "hunter22" not in line
    assert snapshot(tmp_path) == before


def test_a_terminal_sees_a_bar(path: Path, tmp_path: Path):
    fill(path)
    seen = on_a_terminal("migrate", "--from", str(path), "--to", str(tmp_path / "other.db"), folder=tmp_path)
    assert "migrating" in seen.screen


def test_an_org_is_erased_with_a_count_of_each_kind(cli: Cli, path: Path):
    with satchel.open(path) as bag:
        bag.add("stays")
        acme = bag.scoped(org="acme")
        acme.add_many([satchel.Draft("a fact", kind="fact"), satchel.Draft("a fix", kind="fix")])
        acme.session("work").record("user", "said")
    assert "--yes" in complaint(cli("forget", "--org", "acme", "--purge"))
    some = cli("forget", "--org", "acme", "--kind", "fix", "--purge", "--yes")
    assert some.stdout == "purged 1 memory\n"
    done = cli("forget", "--org", "acme", "--purge", "--yes", "--json")
    erased = json.loads(done.stdout)["erased"]
    assert {kind: count for kind, count in erased.items() if count} == {
        "memories": 1, "history": 2, "passages": 1, "vectors": 1,
        "sessions": 1, "entries": 1, "turns": 1, "contents": 1,
    }  # fmt: skip
    again = cli("forget", "--org", "acme", "--purge", "--yes")
    assert (again.returncode, again.stderr) == (2, "satchel: there is nothing of the org 'acme' here\n")
    with satchel.open(path) as bag:
        assert [memory.text for memory in bag.recent()] == ["stays"]


def test_what_the_target_had_before_is_no_failure_of_a_move(cli: Cli, path: Path, tmp_path: Path):
    target = tmp_path / "two.db"
    for place, text in ((path, "one"), (target, "two")):
        with satchel.open(place) as bag:
            bag.add(text)
    done = cli("migrate", "--from", path, "--to", target)
    assert (done.returncode, "also has what it had before" in done.stderr) == (0, True)
    compared = cli("migrate", "--from", path, "--to", target, "--verify-only")
    assert (compared.returncode, "differs from" in compared.stderr) == (1, True)


def test_one_org_of_a_server_is_exported_and_comes_back(cli: Cli, path: Path, pg_rows_url: str):
    with satchel.open(pg_rows_url) as bag:
        bag.add("of another org")
        acme = bag.scoped(org="acme")
        first = acme.add("NUL \0 in a text", tags=["Tag"], project="p")
        acme.relate(acme.add("newer").id, first.id, "supersedes")
    lines = cli("export", "--db", pg_rows_url, "--org", "acme").stdout
    assert len(lines.splitlines()) == 4
    with satchel.open(path) as bag:
        assert bag.scoped(org="acme").import_(lines.encode().splitlines()).added == 2
    assert cli("export", "--db", path, "--org", "acme").stdout == lines
    assert contents(path) == b'{"satchel":"export","version":1}\n'
    erased = cli("forget", "--db", pg_rows_url, "--org", "acme", "--purge", "--yes")
    assert erased.stdout.splitlines()[0] == "memories   2"
    with satchel.open(pg_rows_url) as bag:
        assert bag.stats().memories == 1
        acme = bag.scoped(org="acme")
        assert acme.import_(lines.encode().splitlines()).added == 2
        assert b"".join(acme.export()) == lines.encode()
