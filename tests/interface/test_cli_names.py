"""Names: aliases of commands, projects and tags as tables, and hints where a filter names what is not there."""

import json
from pathlib import Path

import pytest
from complaint import complaint
from sample import fill

import satchel
from conftest import Cli
from satchel.cli.app import ALIASES, COMMANDS
from tables import each_row


@pytest.fixture
def harbor(path: Path) -> Path:
    with satchel.open(path) as bag:
        for project, user, agent, session in (
            ("harbor", "ana", "coder", "s-monday"),
            ("harbor", "ana", "coder", "s-tuesday"),
            ("thesis", "ben", "writer", "s-friday"),
        ):
            view = bag.scoped(project=project, user=user, agent=agent, session=session)
            view.add(f"We rotate keys in {project}, {session}.", tags=["Auth", project])
    return path


def test_every_alias_is_the_command_that_it_stands_for(cli: Cli):
    assert not ALIASES.keys() & COMMANDS.keys()
    for alias, command in ALIASES.items():
        shown = cli(alias, "--help")
        assert shown.stdout == cli(command, "--help").stdout
        assert shown.stdout.startswith(f"Usage: satchel {command} ")
        last = shown.stdout.splitlines()[-1]
        assert last.startswith(("  Alias: ", "  Aliases: "))
        assert alias in last.partition(":")[2].split(", ") or f" {alias}" in last


def test_help_before_a_command_shows_its_help(cli: Cli):
    assert cli("help").stdout == cli("--help").stdout
    assert cli("help", "search").stdout == cli("search", "--help").stdout
    assert cli("help", "ls").stdout == cli("list", "--help").stdout
    assert cli("help", "nothing").returncode == 2


def test_aliases_do_what_people_expect(cli: Cli, path: Path):
    name = cli("remember", "We rotate keys.").stdout.strip()
    assert cli("show", name).stdout == cli("cat", name).stdout == cli("get", name).stdout
    assert cli("ls").stdout == cli("list").stdout
    for alias in ("rm", "delete", "remove"):
        assert cli(alias, name).stdout == "forgot 1 memory\n"
        assert cli("unforget", name).stdout == "restored 1 memory\n"


def test_help_lists_commands_and_not_their_aliases(cli: Cli):
    listed = [line.split()[0] for line in cli("--help").stdout.partition("Commands:\n")[2].splitlines()]
    assert listed == list(COMMANDS)


def test_an_unknown_command_names_one_that_is_near(cli: Cli, path: Path):
    assert complaint(cli("serch")).endswith("there is no command 'serch'; did you mean search?")
    assert complaint(cli("delet", "x")).endswith("did you mean delete?")


def test_projects_and_tags_are_counted_most_first(cli: Cli, harbor: Path):
    assert cli("projects").stdout == "harbor  2\nthesis  1\n"
    assert json.loads(cli("projects", "--json").stdout) == {"names": {"harbor": 2, "thesis": 1}}
    assert cli("tags", "--project", "harbor").stdout == "Auth    2\nharbor  2\n"
    assert json.loads(cli("tags", "--json").stdout) == {"names": {"Auth": 3, "harbor": 2, "thesis": 1}}


def test_no_projects_and_no_tags_are_said(cli: Cli, path: Path):
    satchel.open(path).close()
    for command in ("projects", "tags"):
        done = cli(command)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", f"no {command} here\n")
        assert json.loads(cli(command, "--json").stdout) == {"names": {}}


@each_row(
    ("options", "hint"),
    [
        (("--project", "harbr"), 'no project "harbr"; did you mean harbor?'),
        (("--project", "HARBOR"), 'no project "HARBOR"; did you mean harbor?'),
        (("--project", "zzz"), 'no project "zzz"; there are: harbor, thesis'),
        (("--tag", "auht"), 'no tag "auht"; did you mean Auth?'),
        (("--session", "s-mondya"), 'no session "s-mondya"; did you mean s-monday?'),
        (("--user", "anna"), 'no user "anna"; did you mean ana?'),
        (("--agent", "codr"), 'no agent "codr"; did you mean coder?'),
    ],
)
def test_a_mistyped_name_says_which_are_there(cli: Cli, harbor: Path, options: tuple[str, ...], hint: str):
    for command in (
        ("list",),
        ("search", "rotate keys"),
        ("context", "rotate keys"),
        ("context",),
        ("context-pack",),
        ("forget", "--yes"),
    ):
        done = cli(*command, *options)
        assert done.returncode == 0, done.stderr
        assert hint in done.stderr.splitlines(), command
    as_json = cli("list", *options, "--json")
    assert (json.loads(as_json.stdout), as_json.stderr) == ({"memories": []}, f"{hint}\n")


def test_a_name_that_is_there_gets_no_hint(cli: Cli, harbor: Path):
    assert cli("list", "--project", "harbor", "--tag", "thesis").stderr == "no memories here\n"
    assert cli("list", "--tag", "AUTH").stderr == ""
    assert cli("search", "zebras", "--project", "harbor").stderr == "nothing matched\n"


def test_names_of_another_org_are_not_told(cli: Cli, harbor: Path):
    assert (
        cli("list", "--org", "other", "--project", "harbr").stderr
        == 'no project "harbr"; no memory has a project\n'
    )


def test_unrelate_removes_relations_and_says_how_many(cli: Cli, path: Path):
    one, other, *_ = fill(path)
    for kind in ("related", "supersedes"):
        cli("relate", one.id, other.id, "--kind", kind)
    assert cli("unrelate", one.id, other.id, "--kind", "supersedes").stdout == "removed 1 relation\n"
    with satchel.open(path) as bag:
        assert bag.get(other.id).status == "active"
    assert json.loads(cli("unrelate", one.id, other.id, "--json").stdout) == {"count": 1}
    none = cli("unrelate", one.id, other.id)
    assert (none.returncode, none.stdout) == (0, "removed 0 relations\n")
    assert f"`satchel get {one.id}`" in none.stderr


def test_the_ids_of_a_list_have_one_length_and_each_names_its_memory(cli: Cli, tmp_path: Path):
    for number in range(3):
        cli("add", f"Note {number} about quinces.", "--no-similar")
    found = json.loads(cli("list", "--json").stdout)["memories"]
    # The ends of two of them share 24 bits, so that four characters do not tell them apart.
    for memory, end in zip(found, ("abcdef0000", "abcdefffff", "0123456789"), strict=True):
        memory["id"] = memory["id"][:-10] + end
    (tmp_path / "close.json").write_text(json.dumps({"memories": found}))
    other = ("--db", tmp_path / "close.db")
    assert cli("import", tmp_path / "close.json", *other).returncode == 0
    names = [line.split()[0] for line in cli("list", *other).stdout.splitlines()]
    assert {len(name) for name in names} == {5}
    shown = [json.loads(cli("get", name, "--json", *other).stdout)["id"] for name in names]
    assert sorted(shown) == sorted(memory["id"] for memory in found)
