"""Doctor, completion, help and version, in a real process."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import apsw
import pytest
from click import Context, Option
from complaint import complaint
from sample import contents, fill

import satchel
from conftest import Cli, clean_environment
from satchel.cli.app import COMMANDS, app
from tables import each_row

CALLS = {
    "add": "words",
    "get": "{0}",
    "list": "--json",
    "search": "rotation --explain",
    "context": "rotation --tokens 90 --explain",
    "context-pack": "rotation --json",
    "update": "{0} --title words",
    "forget": "{0}",
    "unforget": "{0}",
    "relate": "{0} {1}",
    "unrelate": "{0} {1}",
    "projects": "",
    "tags": "",
    "similar": "{0}",
    "timeline": "{0}",
    "history": "{0}",
    "stats": "",
    "export": "",
    "import": "-",
    "backup": "new.db",
    "restore": "copy.db --force",
    "doctor": "",
    "reembed": "",
    "tokens": "-",
    "completion": "bash",
}
# What differs between two runs of the same command: ids, times and how long it took.
CHANGING = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|^[a-z2-7]{4}$|\d{4}-\d\d-\d\dT[0-9:.]+Z|\d+\.\d s\b", re.MULTILINE
)


def states(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    return {check["name"]: check["state"] for check in json.loads(done.stdout)["checks"]}


def tamper(path: Path, sql: str) -> None:
    connection = apsw.Connection(str(path))
    try:
        connection.execute(sql)
    finally:
        connection.close()


def test_doctor_finds_a_new_store_well(cli: Cli, path: Path):
    fill(path)
    done = cli("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    place, *rows = done.stdout.splitlines()
    assert place == str(path)
    assert len(rows) >= 9
    assert {row.split()[0] for row in rows} == {"ok"}
    found = cli("doctor", "--json")
    assert set(states(found).values()) == {"ok"}
    assert json.loads(found.stdout)["store"] == str(path)


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        (
            "INSERT INTO memory_fts(memory_fts, rowid, title, text, tags) "
            "VALUES('delete', 1, 'Key rotation', 'We rotate signing keys.', '[\"auth\"]')",
            "search index",
        ),
        ("DELETE FROM memory_tag", "tag index"),
    ],
)
def test_doctor_sees_an_index_out_of_step_and_mends_it(cli: Cli, path: Path, sql: str, name: str):
    memory = fill(path)[0]
    before = contents(path)
    tamper(path, sql)
    broken = cli("doctor", "--json")
    assert broken.returncode == 1
    assert {check for check, state in states(broken).items() if state != "ok"} == {name}
    assert "FAILED" in cli("doctor").stdout
    mended = cli("doctor", "--fix")
    assert mended.returncode == 0
    assert f"rebuilt the {name}" in mended.stderr
    assert "FAILED" not in mended.stdout
    assert contents(path) == before
    assert memory.id in cli("search", "signing", "--tag", "auth", "--json").stdout


def test_doctor_warns_of_a_file_that_others_can_read(cli: Cli, path: Path):
    fill(path)
    path.chmod(0o644)
    done = cli("doctor", "--json")
    assert done.returncode == 0
    assert {name for name, state in states(done).items() if state == "warning"} == {"file permissions"}
    assert "WARNING" in cli("doctor").stdout
    assert "owner only" in cli("doctor", "--fix").stderr
    assert path.stat().st_mode & 0o077 == 0


def test_doctor_on_a_broken_file_says_so_in_one_line_and_leaves_it(cli: Cli, path: Path):
    path.write_bytes(b"\x00\x01random" * 2000)
    for options in ((), ("--fix",)):
        complaint(cli("doctor", *options), code=1)
        assert path.read_bytes() == b"\x00\x01random" * 2000


def test_version_and_module_are_the_same_command(cold_cli: Cli, tmp_path: Path):
    assert cold_cli("--version").stdout == f"satchel {satchel.__version__}\n"
    done = subprocess.run(
        [sys.executable, "-m", "satchel", "--version"],
        capture_output=True,
        text=True,
        timeout=60,
        env=clean_environment(tmp_path),
    )
    assert (done.returncode, done.stdout) == (0, f"satchel {satchel.__version__}\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_is_forked_does_as_one_that_is_started(
    cold_cli: Cli, cli: Cli, path: Path, tmp_path: Path, command: str
):
    """Tests of what is printed fork a process that has loaded its parts; none may rest on that."""
    copy = tmp_path / "copy.db"
    one, other, *_ = fill(copy)
    done = []
    for run in (cold_cli, cli):
        for left in set(tmp_path.iterdir()) - {copy}:
            left.unlink()
        shutil.copy(copy, path)
        call = CALLS.get(command, "--help").format(one.id, other.id).split()
        answer = run(command, *call, stdin='{"text": "記憶"}\n')
        stored = contents(path).decode()
        done.append(
            (answer.returncode, *(CHANGING.sub("*", text) for text in (answer.stdout, answer.stderr, stored)))
        )
    assert done[0] == done[1]
    assert done[0][0] == 0


def test_help_lists_every_command_with_what_it_does(cli: Cli):
    done = cli("-h")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.partition("Commands:\n")[2].splitlines()
    listed = {line.split()[0]: line.split()[1:] for line in lines}
    assert listed.keys() == COMMANDS.keys()
    assert all(listed.values())


def test_without_arguments_the_help_is_printed_as_it_is_with_help(cli: Cli):
    done = cli()
    assert "Commands:\n" in done.stdout + done.stderr


@each_row("command", COMMANDS)
def test_every_command_has_help_that_says_what_it_does(cli: Cli, command: str):
    done = cli(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    usage, _, purpose, *_ = done.stdout.splitlines()
    assert usage.startswith(f"Usage: satchel {command} ")
    assert len(purpose.split()) >= 3


def test_every_option_says_what_it_is_for():
    context = Context(app)
    silent = [
        (name, parameter.name)
        for name in COMMANDS
        if (command := app.get_command(context, name)) is not None
        for parameter in command.params
        if isinstance(parameter, Option) and not parameter.help
    ]
    assert silent == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(cli: Cli, shell: str):
    done = cli("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert "_SATCHEL_COMPLETE" in done.stdout
    assert f"{shell}_complete" in done.stdout


@pytest.mark.parametrize(
    ("words", "position", "wanted"),
    [
        ("satchel sea", 1, {"search"}),
        ("satchel re", 1, {"reembed", "relate", "restore"}),
        ("satchel list --kind pre", 3, {"preference"}),
        ("satchel add --tier w", 3, {"working"}),
        ("satchel search --tok", 2, {"--token-budget", "--tokens"}),
        ("satchel completion ", 2, {"bash", "zsh", "fish"}),
    ],
)
def test_words_complete_as_the_shell_asks_for_them(cli: Cli, words: str, position: int, wanted: set[str]):
    done = cli(_SATCHEL_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(position))
    assert (done.returncode, done.stderr) == (0, "")
    assert {line.partition(",")[2] for line in done.stdout.splitlines()} == wanted


def test_the_script_works_in_a_real_bash(cli: Cli, tmp_path: Path):
    bash = shutil.which("bash")
    assert bash, "this test needs bash"
    script = tmp_path / "completion.bash"
    script.write_text(cli("completion", "bash").stdout)
    asked = (
        f'source "{script}"; complete -p satchel; COMP_WORDS=(satchel time); COMP_CWORD=1; '
        '_satchel_completion satchel; echo "${COMPREPLY[@]}"'
    )
    environment = clean_environment(tmp_path)
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        [bash, "--norc", "-c", asked], capture_output=True, text=True, timeout=60, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    first, last = done.stdout.splitlines()
    assert first.startswith("complete ")
    assert first.endswith(" satchel")
    assert last == "timeline"
