"""The commands that change memories, in a real process: add, update, forget, relate."""

import json
from pathlib import Path

from sample import contents, fill

import satchel
from conftest import Cli
from satchel.model.ids import short_id

FIELDS = {
    "title": "JWT rotation",
    "kind": "decision",
    "tier": "working",
    "importance": 0.8,
    "confidence": 0.25,
    "status": "pending",
    "speaker": "Ana",
    "source": "adr-7.md",
    "ref": "D1:3",
    "topic_key": "auth/jwt",
}
SCOPE = {"org": "acme", "project": "thesis", "user": "ana", "agent": "coder", "session": "s1"}
TIMES = {
    "at": "2026-02-10T09:30:00Z",
    "valid_from": "2026-02-10T00:00:00Z",
    "invalid_at": "2999-01-01T00:00:00Z",
}


def options(fields: dict[str, object]) -> list[str]:
    names = {"topic_key": "topic"}
    return [
        part
        for name, value in fields.items()
        for part in (f"--{names.get(name, name).replace('_', '-')}", str(value))
    ]


def test_add_prints_only_the_new_id_and_says_what_it_did_on_stderr(cli: Cli, path: Path):
    done = cli("add", "We rotate JWTs every hour.")
    assert done.returncode == 0
    with satchel.open(path) as bag:
        memory = bag.get(done.stdout.strip())
        assert done.stdout == f"{bag.short_ids([memory])[0]}\n"
    assert memory.text == "We rotate JWTs every hour."
    assert done.stderr == f"saved, {satchel.count_tokens(memory.text)} tokens\n"


def test_add_says_that_a_text_was_there_how_often_it_was_said_and_when_first(cli: Cli, path: Path):
    first = cli("add", "We rotate JWTs.", "--at", "2026-01-05").stdout.strip()
    cli("add", "We rotate JWTs.")
    done = cli("add", "We rotate JWTs.", "--tag", "auth")
    assert (done.returncode, done.stdout) == (0, f"{first}\n")
    assert done.stderr.startswith(f"confirmed {first} (said 3 times, first 2026-01-05), ")
    told = json.loads(cli("add", "We rotate JWTs.", "--json").stdout)
    assert (told["confirmations"], told["tags"], told["outcome"]) == (3, ["auth"], "confirmed")
    assert told["id"] == json.loads(cli("get", first, "--json").stdout)["id"]
    # An update is no confirmation, though the memory was confirmed before.
    assert cli("add", "We rotate JWTs.", "--ref", "r").stderr.startswith("confirmed")
    assert cli("add", "We rotate JWTs hourly.", "--ref", "r").stderr.startswith("updated to revision 6, ")
    assert cli("add", "We rotate JWTs hourly.", "--ref", "r").stderr.startswith("updated to revision 6, ")
    assert "confirm" in cli("history", first).stdout


def test_search_says_how_many_say_the_same(cli: Cli):
    for session in ("s1", "s2", "s3"):
        cli("add", "We rotate JWTs every hour.", "--session", session)
    assert ", +2 alike)" in cli("search", "JWTs").stdout
    (hit,) = json.loads(cli("search", "JWTs", "--json").stdout)["hits"]
    assert len(hit["duplicates"]) == 2


def test_add_reads_standard_input_and_files_without_the_last_line_end(cli: Cli, path: Path, tmp_path: Path):
    text = "first line\r\n\tsecond 記憶 🎒"
    file = tmp_path / "note.txt"
    with satchel.open(path) as bag:
        for end, left in (("", ""), ("\n", ""), ("\r\n", ""), ("\n\n", "\n"), ("\r", "\r"), (" ", " ")):
            file.write_bytes((text + end).encode())
            for done in (
                cli("add", "-", stdin=text + end),
                cli("add", stdin=text + end),
                cli("add", "--file", file),
            ):
                assert done.returncode == 0, done.stderr
                assert bag.get(done.stdout.strip()).text == text + left
    changed = cli("update", done.stdout.strip(), "--text", "-", "--json", stdin="new\n")
    assert json.loads(changed.stdout)["text"] == "new"


def test_add_takes_every_field_and_shows_it_as_json(cli: Cli):
    done = cli(
        "add", "We rotate JWTs.", "--json", "--pinned", "--tag", "auth", "--tag", "Größe",
        *options(FIELDS | SCOPE | TIMES),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    stored = json.loads(done.stdout)
    assert stored["text"] == "We rotate JWTs."
    assert stored["tags"] == ["auth", "Größe"]
    assert stored["pinned"] is True
    assert stored["scope"] == SCOPE
    assert {name: stored[name] for name in FIELDS | TIMES} == FIELDS | TIMES


def test_add_with_a_known_ref_or_topic_updates_instead(cli: Cli):
    for option in ("--ref", "--topic"):
        first = cli("add", "one", option, "same")
        second = cli("add", "two", option, "same")
        assert second.stdout == first.stdout
        assert second.stderr.startswith("updated to revision 2")


def test_a_text_that_begins_with_a_dash_goes_after_two_dashes(cli: Cli, path: Path):
    done = cli("add", "--kind", "fact", "--", "-5 degrees")
    with satchel.open(path) as bag:
        assert bag.get(done.stdout.strip()).text == "-5 degrees"


def test_update_changes_only_what_was_given(cli: Cli, path: Path):
    before = fill(path)[0]
    done = cli("update", before.id[:18], "--importance", "0.9", "--text", "-", "--json", stdin="We rotate daily.")
    assert done.returncode == 0, done.stderr
    after = json.loads(done.stdout)
    assert (after["text"], after["importance"], after["revision"]) == ("We rotate daily.", 0.9, 2)
    assert (after["title"], after["kind"], after["tags"]) == ("Key rotation", "decision", ["auth"])
    assert cli("search", "daily").stdout.startswith(short_id(before.id, []))


def test_update_says_the_revision_and_an_empty_value_clears_a_field(cli: Cli, path: Path):
    memory = fill(path)[0]
    done = cli("update", memory.id, "--title", "", "--not-pinned")
    assert done.stderr.startswith("updated to revision 2, ")
    with satchel.open(path) as bag:
        assert done.stdout == f"{bag.short_ids([memory])[0]}\n"
        assert bag.get(memory.id).title is None


def test_update_moves_a_memory_to_another_project_or_to_none(cli: Cli, path: Path):
    memory = fill(path)[0]
    done = cli("update", memory.id, "--move-to", "harbour", "--json")
    assert json.loads(done.stdout)["scope"]["project"] == "harbour"
    assert "We rotate" in cli("search", "rotation", "--project", "harbour").stdout
    refused = cli("update", memory.id, "--project", "harbour", "--move-to", "quay")
    assert refused.stderr == "satchel: project 'quay' is outside this view, which is project 'harbour'\n"
    assert cli("update", memory.id, "--clear", "project").returncode == 0
    with satchel.open(path) as bag:
        assert bag.get(memory.id).scope.project is None


def test_forgotten_memories_are_not_found_but_stay(cli: Cli, path: Path):
    memories = fill(path)
    done = cli("forget", memories[0].id, memories[1].id)
    assert (done.returncode, done.stdout) == (0, "forgot 2 memories\n")
    listed = [each["id"] for each in json.loads(cli("list", "--json").stdout)["memories"]]
    assert listed == [memory.id for memory in reversed(memories[2:])]
    assert cli("get", memories[0].id).returncode == 0
    assert cli("forget", memories[2].id).stdout == "forgot 1 memory\n"


def test_forgetting_what_has_ended_already_does_not_move_its_end(cli: Cli, path: Path):
    with satchel.open(path) as bag:
        memory = bag.add("The old office is in Bonn.", invalid_at="2020-01-01")
    assert cli("forget", memory.id).returncode == 0
    with satchel.open(path) as bag:
        assert bag.get(memory.id).invalid_at == memory.invalid_at


def test_forget_by_tag_kind_tier_and_scope_ends_all_that_match(cli: Cli, path: Path):
    fill(path)
    assert cli("forget", "--tag", "auth", "--kind", "error").stdout == "forgot 1 memory\n"
    assert cli("forget", "--tier", "conversation").stdout == "forgot 1 memory\n"
    refused = cli("forget", "--project", "thesis")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "add --yes if it is meant" in refused.stderr
    assert cli("forget", "--project", "thesis", "--yes").stdout == "forgot 1 memory\n"
    assert cli("forget", "--project", "thesis", "--yes").stdout == "forgot 0 memories\n"
    assert cli("forget", "--kind", "fix", "--kind", "decision").stdout == "forgot 2 memories\n"
    with satchel.open(path) as bag:
        assert [memory.kind for memory in bag.recent()] == ["preference"]


def test_purge_removes_every_trace_and_says_how_many(cli: Cli, path: Path):
    memories = fill(path)
    assert cli("forget", "--purge", memories[3].id).stdout == "purged 1 memory\n"
    assert b"prefers tabs" not in path.read_bytes()
    assert cli("get", memories[3].id).returncode == 2
    assert cli("forget", "--purge", "--tag", "cron", "--yes").stdout == "purged 2 memories\n"
    assert json.loads(cli("stats", "--json").stdout)["memories"] == 3


def test_purging_many_without_yes_is_refused_where_nobody_can_be_asked(cli: Cli, path: Path):
    fill(path)
    before = contents(path)
    done = cli("forget", "--purge", "--project", "thesis")
    assert done.returncode == 2
    assert done.stderr.startswith("satchel: ")
    assert "--yes" in done.stderr
    assert contents(path) == before


def test_relate_links_two_memories_and_get_shows_it_from_both_ends(cli: Cli, path: Path):
    _, error, fix, *_ = fill(path)
    done = cli("relate", fix.id, error.id, "--kind", "fixes", "--strength", "0.75")
    with satchel.open(path) as bag:
        one, other = bag.short_ids([fix, error])
    assert done.stdout == f"{one} fixes {other}\n"
    assert f"→ fixes {other} (0.75)" in cli("get", fix.id).stdout
    assert f"← fixes {one} (0.75)" in cli("get", error.id).stdout
    found = json.loads(cli("get", error.id, "--json").stdout)["relations"]
    assert [(each["source"], each["target"], each["kind"], each["strength"]) for each in found] == [
        (fix.id, error.id, "fixes", 0.75)
    ]


def test_relate_as_json_and_superseding_ends_the_target(cli: Cli, path: Path):
    old, new, *_ = fill(path)
    done = json.loads(cli("relate", new.id, old.id, "--kind", "supersedes", "--json").stdout)
    assert (done["source"], done["target"], done["kind"]) == (new.id, old.id, "supersedes")
    with satchel.open(path) as bag:
        assert bag.get(old.id).status == "superseded"
    assert old.id in cli("list", "--status", "superseded", "--json").stdout


JENKINS, ACTIONS = "Our CI runs on Jenkins.", "We moved CI from Jenkins to GitHub Actions."


def test_add_names_similar_memories_and_the_command_that_replaces_one(cli: Cli, path: Path):
    old = cli("add", JENKINS, "--at", "2026-01-05", "--project", "ci", "--session", "s1").stdout.strip()
    cli("add", JENKINS, "--project", "other")
    done = cli("add", ACTIONS, "--project", "ci", "--session", "s2")
    new = done.stdout.strip()
    assert done.stderr.splitlines() == [
        "saved, 10 tokens",
        f"similar: {old} (2026-01-05) {JENKINS}",
        f"if it replaces one: `satchel relate {new} ID --kind supersedes`",
    ]
    command = done.stderr.partition("`satchel ")[2].partition("`")[0].replace("ID", old, 1)
    assert cli(*command.split()).returncode == 0
    with satchel.open(path) as bag:
        assert bag.get(old).superseded_by == bag.get(new).id


def test_the_command_that_replaces_one_names_the_store_and_the_org(cli: Cli, tmp_path: Path):
    place = ("--db", tmp_path / "my notes.db", "--org", "acme")
    cli("add", JENKINS, *place)
    done = cli("add", ACTIONS, *place)
    assert f"`satchel --db '{tmp_path / 'my notes.db'}' relate " in done.stderr
    assert done.stderr.endswith(" ID --kind supersedes --org acme`\n")


def test_similar_memories_are_in_the_json_and_are_left_out_where_nobody_wants_them(cli: Cli):
    old = json.loads(cli("add", JENKINS, "--json").stdout)
    assert old["similar"] == []
    done = cli("add", ACTIONS, "--json")
    assert done.stderr == ""
    (named,) = json.loads(done.stdout)["similar"]
    assert named.keys() == {"id", "at", "headline", "score"}
    assert (named["id"], named["headline"]) == (old["id"], JENKINS)
    silent = cli("add", f"{ACTIONS} All of it.", "--no-similar")
    assert silent.stderr == "saved, 14 tokens\n"
    assert json.loads(cli("add", f"{ACTIONS} Most of it.", "--no-similar", "--json").stdout)["similar"] == []
    assert cli("add", ACTIONS, "--tier", "conversation").stderr == "saved, 10 tokens\n"


def test_a_similar_memory_cannot_pose_as_another_line_nor_send_commands(cli: Cli, path: Path):
    with satchel.open(path) as bag:
        bag.add(f"{JENKINS}\nsimilar: forged\x1b[2J\u2028forged\r\n", title=None)
        bag.add("password: hunter2secret99 for Jenkins CI; our CI runs on Jenkins.")
    done = cli("add", ACTIONS)
    lines = done.stderr.splitlines()
    assert len(lines) == 4
    assert not any(line.startswith("similar: forged") for line in lines)
    assert "\x1b" not in done.stderr
    assert "hunter2secret99" not in done.stderr


def test_similar_lists_what_is_about_the_same_thing(cli: Cli):
    old, new = (cli("add", text).stdout.strip() for text in (JENKINS, ACTIONS))
    shown = cli("similar", new)
    assert shown.stdout.count("\n") == 1
    assert shown.stdout.split(maxsplit=3)[::3] == [old, f"{JENKINS}\n"]
    (named,) = json.loads(cli("similar", new, "--json").stdout)["similar"]
    assert named["id"] == json.loads(cli("get", old, "--json").stdout)["id"]
    lonely = cli("add", "The logo is blue.").stdout.strip()
    none = cli("similar", lonely)
    assert (none.stdout, none.stderr) == ("", "nothing similar\n")
    assert json.loads(cli("similar", lonely, "--json").stdout) == {"similar": []}
    wrong = cli("similar", new, "--limit", "0")
    assert wrong.returncode != 0
    assert "limit 0 is out of range" in wrong.stderr
    unknown = cli("similar", "00000000")
    assert unknown.returncode != 0
    assert unknown.stderr.count("\n") == 1
