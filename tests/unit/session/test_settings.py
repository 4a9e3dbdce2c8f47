"""Where budget settings come from, and their precedence."""

from pathlib import Path

import pytest

from satchel.errors import BudgetError, InputError
from satchel.session import budget as settings
from satchel.session.budget import Budget, resolve_budget


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's configuration folder, empty."""
    monkeypatch.setattr(settings, "_config_folder", lambda: tmp_path)
    return tmp_path


def write(folder: Path, text: str) -> Path:
    path = folder / "satchel.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_without_any_setting_the_defaults_stand(folder: Path) -> None:
    assert resolve_budget(environ={}) == Budget()


def test_the_call_wins_over_the_environment_and_that_over_the_file(folder: Path) -> None:
    write(folder, "[budget]\ntotal = 60_000\nhistory = 1_000\nuser = 2_000\nlow = 0.5\n")
    environ = {"SATCHEL_BUDGET_TOTAL": "80000", "SATCHEL_BUDGET_HISTORY": "3000", "OTHER": "x"}
    budget = resolve_budget(environ=environ, history=4_000)
    assert (budget.total, budget.history, budget.user, budget.low) == (80_000, 4_000, 2_000, 0.5)


def test_the_environment_and_the_file_are_merged_by_number(folder: Path) -> None:
    write(folder, "[budget]\ntotal = 60_000\nuser = 2_000\n[other]\nx = 1\n")
    environ = {"SATCHEL_BUDGET_TOTAL": " 80000 ", "SATCHEL_BUDGET_LOW": "0.6", "SATCHEL_BUDGET_PER_CALL": ""}
    assert resolve_budget(environ=environ) == Budget(total=80_000, user=2_000, low=0.6)


def test_the_process_environment_is_read_when_none_is_given(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SATCHEL_BUDGET_TOTAL", "70000")
    assert resolve_budget().total == 70_000


def test_a_nearer_model_wins_over_a_farther_total_and_the_other_way_round(folder: Path) -> None:
    write(folder, "[budget]\ntotal = 60_000\n")
    assert resolve_budget(environ={"SATCHEL_BUDGET_MODEL": "gpt-4o"}).total == 64_000
    assert resolve_budget(environ={"SATCHEL_BUDGET_TOTAL": "5000"}, model="gpt-4o").total == 64_000
    write(folder, '[budget]\nmodel = "gpt-4o"\n')
    assert resolve_budget(environ={}).total == 64_000
    assert resolve_budget(environ={"SATCHEL_BUDGET_TOTAL": "5000"}).total == 5_000


def test_a_total_beside_a_model_is_the_total(folder: Path) -> None:
    assert resolve_budget(environ={}, model="gpt-4o", total=9_000).total == 9_000


def test_a_whole_budget_stands_but_for_the_numbers_beside_it(folder: Path) -> None:
    write(folder, "[budget]\ntotal = 60_000\n")
    given = Budget(total=50_000, history=1)
    assert resolve_budget(given, environ={"SATCHEL_BUDGET_USER": "7"}) is given
    assert resolve_budget(given, environ={}, low=0.5, user=None) == Budget(total=50_000, history=1, low=0.5)


def test_a_named_file_is_read_instead_of_the_users_own(folder: Path, tmp_path: Path) -> None:
    write(folder, "[budget]\ntotal = 60_000\n")
    other = tmp_path / "other.toml"
    other.write_text("[budget]\ntotal = 70_000\n", encoding="utf-8")
    assert resolve_budget(environ={"SATCHEL_CONFIG": str(other)}).total == 70_000
    assert resolve_budget(environ={}, file=other).total == 70_000


def test_a_named_file_that_is_missing_is_an_error_that_says_who_names_it(folder: Path) -> None:
    missing = folder / "none.toml"
    with pytest.raises(InputError, match=r"there is no file .*none\.toml; SATCHEL_CONFIG names it"):
        resolve_budget(environ={"SATCHEL_CONFIG": str(missing)})
    with pytest.raises(InputError, match=r"there is no file .*none\.toml"):
        resolve_budget(environ={}, file=missing)


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("SATCHEL_BUDGET_TOTAL", "x", "SATCHEL_BUDGET_TOTAL='x' is not a whole number of tokens"),
        ("SATCHEL_BUDGET_USER", "-5", "SATCHEL_BUDGET_USER=-5 is negative"),
        ("SATCHEL_BUDGET_LOW", "2", "SATCHEL_BUDGET_LOW=2.0 is not a number between 0 and 1"),
        ("SATCHEL_BUDGET_LOW", "half", "SATCHEL_BUDGET_LOW='half' is not a number between 0 and 1"),
        ("SATCHEL_BUDGET_TOTL", "5", "SATCHEL_BUDGET_TOTL is not a setting; did you mean SATCHEL_BUDGET_TOTAL?"),
        ("SATCHEL_BUDGET_MODEL", "zzz", "model 'zzz'"),
        ("SATCHEL_BUDGET_MODEL", "zzz", "(model is from SATCHEL_BUDGET_MODEL)"),
    ],
)
def test_a_bad_variable_is_named(folder: Path, variable: str, value: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        resolve_budget(environ={variable: value})
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[budget]\ntotl = 5\n", "satchel.toml: [budget] totl is not a setting; did you mean total?"),
        ("[budget]\nzzz = 5\n", "zzz is not a setting; there are: total, system,"),
        ("[budget]\ntotal = 1.5\n", "satchel.toml: [budget] total = 1.5 is not a whole number of tokens"),
        ("[budget]\nmodel = 5\n", "satchel.toml: [budget] model = 5 is not the name of a model"),
        ("budget = 5\n", "satchel.toml: budget = 5 is not a table"),
        ("[budget\n", "satchel.toml is not TOML"),
    ],
)
def test_a_bad_file_is_named_with_what_is_wrong_in_it(folder: Path, text: str, words: str) -> None:
    write(folder, text)
    with pytest.raises(InputError) as caught:
        resolve_budget(environ={})
    assert words in str(caught.value)


def test_a_file_that_is_not_text_or_not_a_file_is_refused(folder: Path) -> None:
    path = folder / "satchel.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="is not TOML"):
        resolve_budget(environ={})
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match="cannot be read"):
        resolve_budget(environ={})


def test_numbers_that_do_not_fit_together_say_where_each_is_from(folder: Path) -> None:
    write(folder, "[budget]\nhistory = 12_000\n")
    with pytest.raises(BudgetError) as caught:
        resolve_budget(environ={"SATCHEL_BUDGET_TOTAL": "10000"})
    assert "history take 12,000 tokens together, more than the total of 10,000" in str(caught.value)
    assert "total is from SATCHEL_BUDGET_TOTAL" in str(caught.value)
    assert f"history is from {folder / 'satchel.toml'}" in str(caught.value)


def test_an_unknown_number_of_a_call_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="totl is not a setting; did you mean total"):
        resolve_budget(environ={}, totl=5)
