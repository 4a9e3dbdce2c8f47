"""`satchel budget simulate`: a table of costs by policy, with its assumptions."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from complaint import complaint

from conftest import Cli

Shown = Callable[..., dict[str, Any]]
COMMAND = ("budget", "simulate")


@pytest.fixture
def shown(cli: Cli) -> Shown:
    def run(*arguments: str | Path, stdin: bytes = b"") -> dict[str, Any]:
        done = cli(*COMMAND, *arguments, "--json", stdin=stdin)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def times(report: dict[str, Any]) -> list[float]:
    return [round(policy["times_keep_all"], 2) for policy in report["policies"]]


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """60 turns of Claude Code, a minute apart, of about 400 tokens each."""
    lines: list[dict[str, Any]] = [{"type": "mode", "mode": "normal"}]
    for turn in range(60):
        used = [{"type": "tool_use", "id": f"t{turn}", "name": "Read", "input": {"path": f"{turn}.py"}}]
        got = [{"type": "tool_result", "tool_use_id": f"t{turn}", "content": f"line {turn} of code\n" * 80}]
        usage = {"input_tokens": 5, "cache_read_input_tokens": 2_000}
        answer = {"id": f"m{turn}", "role": "assistant", "content": used, "usage": usage}
        at = f"2026-02-10T09:{turn:02}:00Z"
        lines += [
            {"type": "assistant", "timestamp": at, "message": answer},
            {"type": "user", "message": {"role": "user", "content": got}},
        ]
    file = tmp_path / "session.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def test_a_transcript_is_replayed_through_every_policy(cli: Cli, session: Path):
    done = cli(*COMMAND, session, "--limit", "8000", "--window", "20000")
    assert done.returncode == 0
    heading, *rows = done.stdout.splitlines()
    assert heading.split()[:3] == ["policy", "sent", "peak"]
    names = [row.split("  ")[0] for row in rows[:6]]
    assert names == [
        "keep all",
        "oldest until it fits",
        "keep the last 20 turns",
        "watermarks, down to 0.7",
        "watermarks, down to 0.5",
        "watermarks, down to 0.3",
    ]
    assert rows[0].endswith("1.00  exceeds a window of 20,000")
    assert rows[7].startswith("60 turns, a limit of 8,000 tokens")
    assert all(row.startswith("  - ") for row in rows[8:])
    assert "1 line of other kinds skipped" in done.stderr


def test_watermarks_cost_less_than_keeping_all_and_a_little_each_turn_more(shown: Shown, session: Path):
    report = shown(session, "--limit", "8000", "--low", "0.5")
    keep_all, oldest, last, watermarks = times(report)
    assert keep_all == 1
    assert watermarks < keep_all < min(oldest, last)
    assert report["turns"] == 60
    assert report["counter"] == "o200k_base"
    assert [policy["fits_window"] for policy in report["policies"]] == [True] * 4
    assert any("tool schemas: 2,005 tokens" in line for line in report["assumptions"])


def test_standard_input_is_read_like_a_file(shown: Shown, session: Path):
    assert shown("-", stdin=session.read_bytes()) == shown(session)


def test_prices_and_minutes_of_the_cache_change_the_cost(shown: Shown, session: Path):
    plain = shown(session)["policies"][0]
    dear = shown(session, "--read-price", "0.2", "--write-price", "2", "--output-price", "0")["policies"][0]
    assert plain["cost"] == pytest.approx(0.1 * plain["read"] + 1.25 * plain["written"] + 5 * plain["output"])
    assert dear["cost"] == pytest.approx(0.2 * plain["read"] + 2 * plain["written"])
    expired = shown(session, "--cache-minutes", "0.5")["policies"][0]
    assert expired["read"] == 0
    assert expired["written"] == plain["sent"]
    assert shown(session, "--cache-minutes", "1")["policies"][0] == plain


def test_a_counter_can_be_chosen(shown: Shown, session: Path):
    report = shown(session, "--counter", "chars/4")
    assert report["counter"] == "chars/4"
    assert report["policies"][0]["sent"] != shown(session)["policies"][0]["sent"]


def test_the_synthetic_session_shows_the_difference(shown: Shown):
    report = shown("--synthetic", "200")
    _, oldest, last, *watermarks = times(report)
    assert min(oldest, last) > 1.5
    assert max(watermarks) < 0.75
    assert report["policies"][0]["fits_window"] is False
    assert report["counter"] is None


def test_a_session_within_the_limit_is_told_to_show_nothing(cli: Cli, session: Path):
    done = cli(*COMMAND, session, "--limit", "1000000")
    assert "within the limit; try a smaller --limit" in done.stderr


def test_free_tokens_have_no_ratio(cli: Cli, shown: Shown):
    prices = ("--read-price", "0", "--write-price", "0", "--output-price", "0")
    assert {policy["times_keep_all"] for policy in shown("--synthetic", "3", *prices)["policies"]} == {None}
    assert cli(*COMMAND, "--synthetic", "3", *prices).stdout.splitlines()[1].endswith("–")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "give either a TRANSCRIPT or --synthetic"),
        (["x.jsonl", "--synthetic", "5"], "give either a TRANSCRIPT or --synthetic"),
        (["--synthetic", "0"], "synthetic 0 is out of range"),
        (["--synthetic", "5", "--write-price", "nan"], "write price nan"),
        (["--synthetic", "5", "--cache-minutes", "3"], "have no timestamps"),
        (["--synthetic", "5", "--low", "0.7,much"], "--low 'much'"),
        (["--synthetic", "5", "--low", "70"], "--low '70'"),
        (["--synthetic", "5", "--limit", "0"], "--limit 0"),
        (["--synthetic", "5", "--window", "wide"], "--window 'wide'"),
        (["--synthetic", "5", "--counter", "abacus"], "unknown counter 'abacus'"),
    ],
)
def test_bad_options_are_one_clear_line(cli: Cli, arguments: list[str], expected: str):
    assert expected in complaint(cli(*COMMAND, *arguments))


def test_a_file_that_cannot_be_read_is_one_clear_line(cli: Cli, tmp_path: Path):
    assert "No such file" in complaint(cli(*COMMAND, "missing.jsonl"))
    assert "Is a directory" in complaint(cli(*COMMAND, tmp_path))
    (tmp_path / "broken.jsonl").write_bytes(b'{"type":"mode"}\n{"type":\n')
    assert "line 2 of broken.jsonl is not JSON" in complaint(cli(*COMMAND, "broken.jsonl"))
    assert "standard input is empty" in complaint(cli(*COMMAND, "-"))
