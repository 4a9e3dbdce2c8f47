"""Convenience: piped text, clearing fields, hints instead of long output."""

import json
from pathlib import Path

import pytest

import satchel
from conftest import Cli


def test_a_piped_text_needs_no_dash(cli: Cli, path: Path):
    assert cli("add", stdin="piped in").returncode == 0
    with satchel.open(path) as bag:
        assert [memory.text for memory in bag.recent()] == ["piped in"]


def test_a_byte_order_mark_is_not_remembered(cli: Cli, path: Path, tmp_path: Path):
    (tmp_path / "note.txt").write_bytes(b"\xef\xbb\xbffrom an editor")
    assert cli("add", "--file", "note.txt").returncode == 0
    with satchel.open(path) as bag:
        assert bag.recent()[0].text == "from an editor"


def test_one_token_is_not_two(cli: Cli):
    assert cli("add", "hello").stderr == "saved, 1 token\n"


@pytest.mark.slow
def test_a_counter_that_does_not_know_the_number_says_what_it_gives_instead(cli: Cli):
    shown = cli("tokens", "--all", stdin="hi").stdout
    assert "claude-3 (at most; about 2)" in shown
    assert "chars/4 (rule of thumb)" in shown


def test_update_can_clear_fields(cli: Cli, path: Path):
    with satchel.open(path) as bag:
        memory = bag.add("x", title="t", tags=["a"], topic_key="k")
    shown = json.loads(cli("update", memory.id, "--clear", "title", "--clear", "tags", "--json").stdout)
    assert (shown["title"], shown["tags"]) == (None, [])
    assert shown["topic_key"] == "k"


def test_an_empty_db_option_is_not_the_default_store(cli: Cli):
    done = cli("list", "--db", "")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--db is empty" in done.stderr


def test_a_database_given_to_import_is_recognised(cli: Cli, path: Path, tmp_path: Path):
    with satchel.open(path) as bag:
        bag.add("x")
        bag.backup(tmp_path / "copy.db")
    done = cli("import", "copy.db")
    assert done.returncode == 2
    assert "`satchel restore` takes it" in done.stderr


def test_a_flood_of_bad_lines_is_cut_short(cli: Cli):
    done = cli("import", "-", stdin="nonsense\n" * 100 + '{"text": "good"}\n')
    assert done.returncode == 1
    assert "added 1," in done.stdout
    assert len(done.stderr.splitlines()) == 21
    assert "80 more bad lines" in done.stderr


def test_export_to_a_dash_is_standard_output(cli: Cli, path: Path, tmp_path: Path):
    satchel.open(path).close()
    assert cli("export", "-o", "-").stdout.startswith('{"satchel":"export"')
    assert not (tmp_path / "-").exists()


def test_list_says_that_there_is_more(cli: Cli, path: Path):
    with satchel.open(path) as bag:
        bag.add_many(satchel.Draft(f"note {number}") for number in range(3))
    assert "there are more" in cli("list", "--limit", "2").stderr
    assert cli("list", "--limit", "3").stderr == ""


def test_a_scope_that_looks_like_a_secret_is_refused(cli: Cli, path: Path):
    done = cli("add", "x", "--project", "ghp_" + "a1B2" * 9)
    assert done.returncode == 2
    assert "project looks like a secret" in done.stderr
    assert "a1B2a1B2" not in done.stderr
    assert not path.exists()


def test_a_bad_line_does_not_echo_a_secret(cli: Cli):
    token = "ghp_" + "a1B2" * 9
    done = cli("import", "-", stdin=json.dumps({"text": "x", "kind": token}) + "\n")
    assert done.returncode == 1
    assert "unknown kind" in done.stderr
    assert token not in done.stderr


def test_words_of_the_shell_that_are_not_utf8_are_refused(cli: Cli, path: Path):
    done = cli("add", b"caf\xe9".decode("utf-8", "surrogateescape"))
    assert done.returncode == 2
    assert "the text is not UTF-8" in done.stderr
    assert not path.exists()


def test_an_empty_variable_where_a_tag_was_meant_forgets_nothing(cli: Cli, path: Path):
    with satchel.open(path) as bag:
        bag.add("precious", project="p")
    for options in (("--tag", ""), ("--tag", "", "--purge", "--yes"), ("--project", "")):
        done = cli("forget", *options)
        assert done.returncode == 2
        assert "is blank" in done.stderr
    with satchel.open(path) as bag:
        assert len(bag.recent()) == 1
