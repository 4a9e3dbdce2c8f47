"""`satchel budget`: sessions, their use of tokens, their results."""

import json
import re
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import satchel
from conftest import COMMAND, clean_environment

LINES = "".join(f"src/file{number % 7}.py:{number}: return login(user, {number})\n" for number in range(2_000))


@pytest.fixture
def handles(path: Path) -> list[str]:
    """A session of a few turns, and another of one result."""
    with satchel.open(path) as bag:
        session = bag.session("fix-login", budget=satchel.Budget(total=50_000))
        session.record("system", "Be careful.")
        session.record("user", "Fix the login.")
        shown = [session.result("grep", f"{number}\n{LINES}", new_turn=True).handle for number in range(12)]
        bag.scoped(project="other").session("small").result("cat", b"\xff\x00\xfe")
    return shown


def test_sessions_are_listed_with_bars_the_last_changed_first(cli, handles):
    printed = cli("budget").stdout
    names = re.findall(r"^(\S+)  just now$", printed, re.MULTILINE)
    assert names == ["small", "fix-login"]
    assert "of 50,000" in printed
    bars = re.findall(r"\[(.{50})\]", printed)
    assert len(bars) == 2
    assert "█" in bars[1]
    assert "▒ system" in printed.splitlines()[-1]


def test_a_project_has_its_own_sessions(cli, handles):
    assert "fix-login" not in cli("budget", "--project", "other").stdout
    assert json.loads(cli("budget", "--project", "none", "--json").stdout) == {"sessions": []}


def test_no_session_is_a_remark_and_no_error(cli, bag):
    done = cli("budget")
    assert (done.returncode, done.stdout) == (0, "")
    assert "no sessions; " in done.stderr


def test_json_has_the_state_of_each(cli, handles):
    sessions = json.loads(cli("budget", "--json").stdout)["sessions"]
    state = next(each for each in sessions if each["session"] == "fix-login")
    assert state["total_budget"] == sum(state["used"].values()) + state["remaining"]
    assert state["results"] == 12


def test_one_session_is_shown_by_category_with_its_limits(cli, handles):
    printed = cli("budget", "show", "fix-login").stdout
    assert re.search(r"^tool results +[\d,]+ +20,000  \[█+ *\]$", printed, re.MULTILINE)
    assert "12 results" in printed


def test_json_of_one_has_its_turns(cli, handles):
    shown = json.loads(cli("budget", "show", "fix-login", "--json").stdout)
    assert [turn["number"] for turn in shown["turns"]] == list(range(14))
    assert shown["limits"]["history"] == 6_000
    assert shown["turns"][-1]["evicted"] == shown["evicted"] > 0


def test_a_plot_is_drawn_with_every_category_and_batch(cli, handles, tmp_path):
    done = cli("budget", "show", "fix-login", "--plot", str(tmp_path / "p.svg"))
    assert f"drew {tmp_path / 'p.svg'}" in done.stderr
    drawn = (tmp_path / "p.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(drawn)
    for word in ("fix-login", "tool results", "response reserve", "budget 50,000", "evicted"):
        assert word in drawn


def test_results_are_listed_newest_first_with_their_handles(cli, handles):
    rows = cli("budget", "results", "fix-login", "--limit", "5").stdout.splitlines()
    assert rows[0].split() == [
        "handle",
        "turn",
        "tool",
        "shape",
        "shown",
        "of",
        "~tokens",
        "in",
        "context",
        "digest",
    ]
    assert [row.split()[0] for row in rows[1:]] == handles[:-6:-1]
    listed = json.loads(cli("budget", "results", "fix-login", "--json").stdout)["results"]
    assert [each["handle"] for each in listed] == handles[::-1]
    assert all(len(each["digest"]) <= 500 for each in listed)


def test_expand_prints_the_very_bytes(cli, handles, path):
    assert cli("budget", "expand", "fix-login", handles[3]).stdout == f"3\n{LINES}"
    with satchel.open(path) as bag:
        binary = bag.scoped(project="other").find_session("small").results()[0].handle
    command = [COMMAND, "--db", path, "budget", "expand", "small", binary]
    assert subprocess.check_output(command, env=clean_environment(path.parent)) == b"\xff\x00\xfe"


def test_a_forgotten_session_is_gone(cli, handles):
    assert cli("budget", "forget", "fix-login").stdout == "removed the session fix-login\n"
    assert "fix-login" not in cli("budget").stdout
    assert "there is no session 'fix-login'; there are: small" in cli("budget", "show", "fix-login").stderr


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["show", "nope"], "there is no session 'nope'; there are: small, fix-login"),
        (["results", " "], "the session name is blank"),
        (["expand", "fix-login", "zz"], "'zz' is not a handle"),
        (["expand", "fix-login", "00000000"], "no result has the handle '00000000'"),
        (["show", "fix-login", "--plot", "p.png"], "--plot draws an SVG"),
        (["--limit", "0"], "limit 0 is out of range"),
        (["simulate"], "TRANSCRIPT"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(cli, handles, command, said):
    done = cli("budget", *command)
    assert done.returncode == 2
    assert done.stderr.startswith("satchel: ")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
