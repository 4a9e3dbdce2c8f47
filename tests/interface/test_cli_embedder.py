"""Choosing the embedder: `--embedder`, SATCHEL_EMBEDDER and `satchel reembed`, in real processes."""

import json
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from complaint import complaint
from sample import contents, fill
from terminal import ESCAPE, on_a_terminal, plain

import satchel
from conftest import Cli, clean_environment
from embedding_server import Server, plain_environment, server, status, well
from satchel import Draft
from satchel.cli.options import embed_waiting
from satchel.embed.embedder import DEFAULT_EMBEDDER, resolve_embedder

# Fixtures, which the tests ask for by name.
__all__ = ["plain_environment", "server"]

pytestmark = pytest.mark.usefixtures("as_installed")

DEFAULT = resolve_embedder(DEFAULT_EMBEDDER).name
SPEC = re.compile(r"`satchel ([^`]+)`")


def embedder_of(path: Path) -> str | None:
    with satchel.open(path, create=False) as bag:
        return bag.embedder


def vectors_check(cli: Cli) -> dict[str, str]:
    checks = json.loads(cli("doctor", "--json").stdout)["checks"]
    return next(check for check in checks if check["name"] == "vectors")


@pytest.fixture
def endpoint(server: Server) -> str:
    return f"openai:tiny@{server.base}"


def test_without_the_option_a_new_store_has_the_default_and_an_old_one_its_own(cli: Cli, path: Path):
    assert cli("add", "one").returncode == 0
    assert embedder_of(path) == DEFAULT
    with satchel.open(path) as bag:
        bag.reembed("none")
    assert cli("add", "two").returncode == 0
    assert embedder_of(path) == "none"


@pytest.mark.parametrize("place", ["before", "after", "environment"])
def test_the_embedder_of_a_new_store_can_be_named(cli: Cli, path: Path, place: str):
    named = ("--embedder", "none")
    before, after = (named, ()) if place == "before" else ((), named if place == "after" else ())
    environment = {"SATCHEL_EMBEDDER": "none"} if place == "environment" else {}
    assert cli(*before, "add", "one", *after, **environment).returncode == 0
    assert embedder_of(path) == "none"


def test_the_option_goes_before_the_environment_and_an_empty_variable_is_none(cli: Cli, path: Path):
    assert cli("add", "one", "--embedder", "none", SATCHEL_EMBEDDER="static").returncode == 0
    assert embedder_of(path) == "none"
    assert cli("search", "one", SATCHEL_EMBEDDER=" ").returncode == 0


@pytest.mark.parametrize("spec", ["", "static:other", "openai:", "openai:m@ftp://x", "none:x"])
def test_a_spec_that_is_none_is_named(cli: Cli, path: Path, spec: str):
    fill(path)
    said = complaint(cli("reembed", "--embedder", spec))
    assert spec.removeprefix("openai:m@") in said
    assert embedder_of(path) == DEFAULT


def test_a_bad_spec_changes_nothing_whatever_the_command(cli: Cli, path: Path):
    memory = fill(path)[0]
    before = contents(path)
    for arguments in (
        ("list",),
        ("search", "rotation"),
        ("context",),
        ("add", "text"),
        ("update", memory.id, "--text", "other"),
        ("import", "-"),
    ):
        assert "'bogus'" in complaint(cli("--embedder", "bogus", *arguments))
    assert contents(path) == before
    assert embedder_of(path) == DEFAULT


def test_a_bad_variable_is_named_by_the_commands_that_embed_and_keeps_no_other_from_its_work(cli: Cli, path: Path):
    fill(path)
    assert "SATCHEL_EMBEDDER: unknown embedder 'bogus'" in complaint(cli("search", "x", SATCHEL_EMBEDDER="bogus"))
    for command in (("list",), ("doctor",), ("stats",), ("export",)):
        assert cli(*command, SATCHEL_EMBEDDER="bogus").returncode == 0


def test_a_new_store_is_not_made_for_a_bad_spec(cli: Cli, path: Path):
    complaint(cli("add", "text", "--embedder", "bogus"))
    complaint(cli("import", "-", SATCHEL_EMBEDDER="bogus"))
    assert not path.exists()


@pytest.mark.parametrize("given", [(), ("--db", "my notes.db")])
def test_a_refused_embedder_names_the_command_that_then_works(cli: Cli, tmp_path: Path, given: tuple[str, ...]):
    place = tmp_path / (given[1] if given else "notes.db")
    fill(place)
    before = contents(place)
    for arguments in (("search", "rotation"), ("context", "rotation"), ("add", "new"), ("import", "-")):
        said = complaint(cli(*given, "--embedder", "none", *arguments))
        assert DEFAULT in said
    assert contents(place) == before
    (advised,) = SPEC.findall(said)
    done = cli(*shlex.split(advised))
    assert (done.returncode, done.stderr) == (0, "")
    assert embedder_of(place) == "none"
    assert cli(*given, "--embedder", "none", "search", "rotation").returncode == 0


def test_commands_that_embed_nothing_do_not_ask_who_embeds(cli: Cli, path: Path):
    memory = fill(path)[0]
    for arguments in (
        ("list",),
        ("get", memory.id),
        ("stats",),
        ("doctor",),
        ("history", memory.id),
        ("backup", "copy.db"),
        ("forget", memory.id),
    ):
        done = cli("--embedder", "none", *arguments)
        assert done.returncode == 0, done.stderr


def test_reembed_to_none_and_back_changes_nothing_but_vectors(cli: Cli, path: Path):
    memories = fill(path)
    before = contents(path)
    done = cli("--embedder", "none", "reembed")
    assert (done.returncode, done.stderr) == (0, "")
    assert "removed all vectors" in done.stdout
    assert embedder_of(path) == "none"
    assert contents(path) == before
    found = json.loads(cli("search", "signing keys", "--json", "--explain").stdout)["hits"]
    assert found[0]["memory"]["id"] == memories[0].id
    assert found[0]["parts"]["meaning"] == 0
    before = contents(path)  # what was found has been used
    done = cli("reembed", "--embedder", DEFAULT_EMBEDDER)
    assert re.fullmatch(rf"embedded 6 passages with {DEFAULT} in \d+\.\d s\n", done.stdout)
    assert done.stderr == ""
    assert contents(path) == before
    found = json.loads(cli("search", "signing keys", "--json", "--explain").stdout)["hits"]
    assert found[0]["memory"]["id"] == memories[0].id
    assert found[0]["parts"]["meaning"] > 0
    assert vectors_check(cli)["state"] == "ok"


def test_reembed_without_a_spec_makes_the_stores_own_vectors_anew(cli: Cli, path: Path):
    fill(path)
    done = cli("reembed", "--json")
    assert json.loads(done.stdout) == {"embedded": 6, "embedder": DEFAULT}
    assert done.stderr == ""


def test_reembed_needs_a_store(cli: Cli, path: Path):
    assert str(path) in complaint(cli("reembed"), code=cli("list").returncode)
    assert not path.exists()


def test_a_terminal_gets_a_bar_that_goes_away_and_the_same_last_line(path: Path, tmp_path: Path):
    fill(path)
    shown = on_a_terminal("reembed", folder=tmp_path, stdout_is_a_pipe=True)
    assert shown.returncode == 0
    assert ESCAPE in shown.screen
    assert "embedding" in plain(shown.screen)
    assert re.fullmatch(rf"embedded 6 passages with {DEFAULT} in \d+\.\d s\n", shown.piped)


def test_reembed_by_an_endpoint(cli: Cli, path: Path, server: Server, endpoint: str):
    memories = fill(path)
    done = cli("reembed", "--embedder", endpoint)
    assert re.fullmatch(rf"embedded 6 passages with {re.escape(endpoint)} in \d+\.\d s\n", done.stdout)
    assert embedder_of(path) == endpoint
    sent = [text for _, _, asked in server.seen for text in asked["input"]]
    assert any(memories[1].text in text for text in sent)
    asked_so_far = len(server.seen)
    done = cli("search", "leap day", "--json", SATCHEL_EMBEDDER=endpoint)
    assert json.loads(done.stdout)["hits"][0]["memory"]["id"] == memories[1].id
    assert done.stderr == ""
    assert [asked["input"] for _, _, asked in server.seen[asked_so_far:]] == [["leap day"]]


def test_an_endpoint_that_nobody_named_is_not_asked_and_that_is_said(
    cli: Cli, path: Path, server: Server, endpoint: str
):
    fill(path)
    cli("reembed", "--embedder", endpoint)
    asked = len(server.seen)
    for command in (("search", "leap day"), ("context", "leap day")):
        done = cli(*command)
        assert "leap day" in done.stdout
        assert f"searched by words only; --embedder {endpoint} also searches by meaning" in done.stderr
    assert "words only" not in cli("context").stderr
    assert endpoint in complaint(cli("reembed"))
    assert len(server.seen) == asked


def test_what_waits_is_caught_up_with_and_nothing_else_is_sent(cli: Cli, path: Path, server: Server, endpoint: str):
    fill(path)
    cli("reembed", "--embedder", endpoint)
    assert cli("add", "kept for later").returncode == 0
    check = vectors_check(cli)
    assert check["state"] == "warning"
    assert check["detail"].startswith("1 memories wait")
    shown = next(row for row in cli("doctor").stdout.splitlines() if " vectors " in row)
    assert shown.startswith("WARNING")
    (advised,) = SPEC.findall(shown)
    server.seen.clear()
    done = cli(*shlex.split(advised))
    assert re.fullmatch(rf"embedded 1 waiting memory with {re.escape(endpoint)} in .*\n", done.stdout)
    assert [asked["input"] for _, _, asked in server.seen] == [["kept for later"]]
    assert vectors_check(cli) == {"name": "vectors", "state": "ok", "detail": f"by {endpoint}"}


@pytest.mark.parametrize("spec", ["http", "refused", "transformers"])
def test_an_embedder_that_fails_leaves_the_old_vectors_and_says_why(
    cli: Cli, path: Path, server: Server, endpoint: str, spec: str
):
    fill(path)
    server.for_ever = status(404, "no such model")
    named, why = {
        "http": (endpoint, "answered 404: no such model"),
        "refused": ("openai:tiny@http://127.0.0.1:1/v1", "failed: "),
        "transformers": (f"sentence-transformers:{path.parent}/nothing", "nothing"),
    }[spec]
    before = contents(path)
    assert why in complaint(cli("reembed", "--embedder", named), code=1)
    assert contents(path) == before
    assert embedder_of(path) == DEFAULT
    assert vectors_check(cli)["state"] == "ok"
    assert cli("search", "signing keys").returncode == 0


def test_stats_name_the_embedder(cli: Cli, path: Path):
    assert cli("add", "one").returncode == 0
    assert f"\nembedder  {DEFAULT}\n" in cli("stats").stdout
    assert json.loads(cli("stats", "--json").stdout)["embedder"] == DEFAULT


def test_ctrl_c_says_how_to_go_on_and_the_same_command_does(
    cli: Cli, path: Path, tmp_path: Path, server: Server, endpoint: str
):
    with satchel.open(path, embedder="static") as bag:
        bag.add_many(Draft(f"note number {number}") for number in range(1_100))
    before = contents(path)
    stuck, go_on = threading.Event(), threading.Event()
    server.for_ever = slow_after(700, server, stuck, go_on)
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("satchel")), "reembed", "--embedder", endpoint],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=clean_environment(tmp_path),
    )
    try:
        assert stuck.wait(60)
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=60)
    finally:
        process.kill()
        go_on.set()
    assert (process.returncode, out) == (130, "")
    assert said == "satchel: stopped; run the same command again to continue\n"
    assert embedder_of(path) == resolve_embedder("static").name
    assert contents(path) == before
    check = vectors_check(cli)
    assert (check["state"], SPEC.findall(check["detail"])) == ("warning", [f"reembed --embedder {endpoint}"])
    server.for_ever = None
    server.seen.clear()
    done = cli("reembed", "--embedder", endpoint, "--json")
    assert done.returncode == 0, done.stderr
    embedded = json.loads(done.stdout)["embedded"]
    assert 0 < embedded < 1_100
    assert sum(len(asked["input"]) for _, _, asked in server.seen) == embedded + 1, "and once for the dimensions"
    assert embedder_of(path) == endpoint
    assert contents(path) == before
    assert vectors_check(cli)["state"] == "ok"


def slow_after(
    texts: int, server: Server, stuck: threading.Event, go_on: threading.Event
) -> Callable[[object, dict], None]:
    """Answers well until this many texts were sent, then not until it is told to."""

    def turn(handler, asked):
        if sum(len(each["input"]) for _, _, each in server.seen) > texts:
            stuck.set()
            go_on.wait(60)
            return
        well(handler, asked)

    return turn


def test_an_import_makes_all_vectors_before_it_ends(cli: Cli, path: Path, tmp_path: Path):
    lines = tmp_path / "notes.jsonl"
    lines.write_text("".join(f'{{"text": "note {number}"}}\n' for number in range(300)), "utf-8")
    done = cli("import", str(lines), "--embedder", "minilm")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("added 300,")
    assert vectors_check(cli) == {"name": "vectors", "state": "ok", "detail": "by minilm-l6-v2-int8"}


def test_a_text_of_many_passages_is_embedded_before_add_ends(cli: Cli, path: Path, tmp_path: Path):
    text = tmp_path / "long.txt"
    # Words of more than a hundred characters are one token each.
    text.write_text("\n\n".join(f"{number} {('x' * 140 + ' ') * 4}" for number in range(300)), "utf-8")
    done = cli("add", "--file", str(text), "--embedder", "minilm")
    assert done.returncode == 0, done.stderr
    assert vectors_check(cli)["state"] == "ok"


def test_ctrl_c_while_vectors_are_made_says_how_many_wait_and_how_to_go_on(path: Path, monkeypatch):
    with satchel.open(path, embedder="none") as bag:
        bag.add("one")
        monkeypatch.setattr("satchel.store.index.backlog_size", lambda tx: 1234)

        def interrupted(**_: object) -> int:
            raise KeyboardInterrupt

        monkeypatch.setattr(bag, "catch_up", interrupted)
        said = r"all is stored, and 1,234 wait .*`satchel --db notes\.db reembed`"
        with click.Context(click.Command("import"), obj={"db": None}), pytest.raises(click.Abort, match=said):
            embed_waiting(bag, "notes.db")


def test_an_embedder_that_fails_after_a_write_is_a_remark_and_no_failure(path: Path, monkeypatch, capsys):
    with satchel.open(path, embedder="none") as bag:
        monkeypatch.setattr("satchel.store.index.backlog_size", lambda tx: 2)

        def failing(**_: object) -> int:
            raise satchel.EmbedderError("down on purpose")

        monkeypatch.setattr(bag, "catch_up", failing)
        embed_waiting(bag, None)
        assert capsys.readouterr() == ("", "down on purpose\n")
