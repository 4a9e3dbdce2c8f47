"""The commands that read memories, in a real process: get, list, search, timeline, history, stats."""

import json
import subprocess
from pathlib import Path

from sample import fill

import satchel
from conftest import Cli


def ids(done: subprocess.CompletedProcess[str], key: str = "hits") -> list[str]:
    assert done.returncode == 0, done.stderr
    return [each.get("memory", each)["id"] for each in json.loads(done.stdout)[key]]


def test_get_shows_the_whole_text_under_a_heading(cli: Cli, path: Path):
    with satchel.open(path) as bag:
        memory = bag.add("one\n\n" + "word " * 200 + "end", title="T", kind="fact", tags=["a"], at="2026-02-10")
    done = cli("get", memory.id[:13])
    heading, *body = done.stdout.splitlines()
    with satchel.open(path) as bag:
        (name,) = bag.short_ids([memory])
    assert heading == f"{name} [fact] T (2026-02-10, #a)"
    assert [line.removeprefix("    ") for line in body] == [line.rstrip() for line in memory.text.split("\n")]


def test_get_shows_the_other_fields_that_are_set(cli: Cli, path: Path):
    with satchel.open(path) as bag:
        plain = bag.add("plain")
        memory = bag.scoped(session="s1").add(
            "one", source="adr-7.md\npinned: true", pinned=True, importance=0.8, metadata={"pr": 12}
        )
    assert cli("get", plain.id).stdout.count("\n") == 2
    _, text, *details = cli("get", memory.id).stdout.splitlines()
    assert text == "    one"
    assert details == [
        "session: s1",
        "importance: 0.8",
        "pinned: true",
        "source: adr-7.md pinned: true",
        'metadata: {"pr":12}',
    ]


def test_get_as_json_has_every_field_and_counts_the_use(cli: Cli, path: Path):
    memory = fill(path)[1]
    cli("get", memory.id)
    found = json.loads(cli("get", memory.id.upper().replace("-", ""), "--json").stdout)
    assert found["text"] == memory.text
    assert found["tags"] == ["auth", "cron"]
    assert found["access_count"] == 2
    assert found["relations"] == []


def test_list_shows_the_newest_first_one_line_each(cli: Cli, path: Path):
    memories = fill(path)
    lines = cli("list", "--limit", "3").stdout.splitlines()
    assert len(lines) == 3
    for line, memory in zip(lines, reversed(memories), strict=False):
        name, date, kind, *rest = line.split()
        assert (date, kind) == (memory.at.date().isoformat(), memory.kind)
        assert " ".join(rest) == " ".join([memory.scope.project or "", memory.headline()]).strip()
        assert json.loads(cli("get", name, "--json").stdout)["id"] == memory.id
    assert len({len(line.split()[0]) for line in lines}) == 1
    assert len({line.index("2026-") for line in lines}) == 1


def test_list_has_columns_only_for_what_is_there(cli: Cli, path: Path):
    with satchel.open(path) as bag:
        kept, gone, later = (
            bag.add(text, at="2026-02-10", valid_from=start)
            for text, start in (("kept", None), ("gone", None), ("later", "2999-01-01"))
        )
        bag.forget(gone.id)
    assert cli("list").stdout.split()[1:] == ["2026-02-10", "observation", "kept"]
    everything = [line.split()[1:] for line in cli("list", "--ended").stdout.splitlines()]
    assert sorted(everything) == [
        ["2026-02-10", "observation", "ended", "gone"],
        ["2026-02-10", "observation", "kept"],
        ["2026-02-10", "observation", "later", "later"],
    ]
    assert kept.id != later.id


def test_list_filters_and_details_and_json_agree(cli: Cli, path: Path):
    memories = fill(path)
    assert ids(cli("list", "--json", "--tag", "cron"), "memories") == [memories[2].id, memories[1].id]
    assert ids(cli("list", "--json", "--user", "ana"), "memories") == [memories[3].id]
    assert ids(cli("list", "--json", "--tier", "conversation"), "memories") == [memories[4].id]
    assert ids(cli("list", "--json", "--status", "archived"), "memories") == []
    full = cli("list", "--detail", "full", "--kind", "fix").stdout
    assert full.splitlines()[1] == f"    {memories[2].text}"
    whole = json.loads(cli("list", "--detail", "full", "--kind", "fix", "--json").stdout)
    assert whole["memories"][0]["text"] == memories[2].text


def test_an_empty_list_says_so_on_stderr_and_stays_json_with_json(cli: Cli, path: Path):
    satchel.open(path).close()
    done = cli("list")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "no memories here\n")
    assert json.loads(cli("list", "--json").stdout) == {"memories": []}


def test_search_finds_by_any_word_and_narrows_by_kind_project_and_tag(cli: Cli, path: Path):
    memories = fill(path)
    everything = ids(cli("search", "rotation zebras", "--json"))
    assert sorted(everything) == sorted(memories[index].id for index in (0, 1, 2, 5))
    assert ids(cli("search", "key rotation", "--json"))[0] == memories[0].id
    assert ids(cli("search", "rotation", "--json", "--kind", "fix")) == [memories[2].id]
    assert ids(cli("search", "rotation", "--json", "--project", "thesis")) == [memories[5].id]
    assert ids(cli("search", "rotation", "--json", "--tag", "auth", "--tag", "cron")) == [memories[1].id]
    assert len(ids(cli("search", "rotation", "--json", "--limit", "2"))) == 2
    assert ids(cli("search", "記憶", "--json")) == [memories[4].id]


def test_search_shows_titles_snippets_or_whole_texts(cli: Cli, path: Path):
    with satchel.open(path) as bag:
        memory = bag.add("needle " + "haystack " * 100 + "end", title="Hay")
    title = cli("search", "needle", "--detail", "summary").stdout
    snippet = cli("search", "needle").stdout
    whole = cli("search", "needle", "--detail", "full").stdout
    assert title.count("\n") == 1
    assert "Hay" in title
    assert snippet.endswith("haystack…\n")
    assert len(snippet) < 450
    assert whole.splitlines()[1] == f"    {memory.text}"


def test_search_that_matches_nothing_says_so(cli: Cli, path: Path):
    fill(path)
    done = cli("search", "zebra")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "nothing matched\n")
    whole = json.loads(cli("search", "zebra", "--json").stdout)
    within = json.loads(cli("search", "zebra", "--json", "--tokens", "200").stdout)
    assert whole == within | {"text": "", "token_count": 0, "token_budget": None, "smallest_budget": None}
    assert within == {
        "hits": [],
        "included": 0,
        "omitted": 0,
        "tokens_omitted": 0,
        "irrelevant": 0,
        "complete": True,
        "matched": True,
    }


def test_search_takes_query_syntax_as_plain_words(cli: Cli, path: Path):
    memory = fill(path)[0]
    for query in ('"signing* NEAR(', "title:signing AND", "-signing ^"):
        assert memory.id in ids(cli("search", "--json", "--", query)), query
    for query in ("", '" * : (', "NEAR( AND OR NOT"):
        done = cli("search", query)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "nothing matched\n"), query


def test_get_list_and_timeline_show_a_memory_as_it_was(cli: Cli, path: Path):
    with satchel.open(path) as bag:
        other = bag.add("the step before", at="2026-02-01")
        step = bag.add("as it was", at="2026-02-02")
        then = step.created_at.isoformat()
        bag.relate(step.id, other.id)
        bag.update(step.id, text="as it is")
    commands = (("get", step.id), ("list",), ("timeline", other.id))
    for command in commands:
        for options, shown, hidden in (((), "as it is", "as it was"), (("--as-of", then), "as it was", "as it is")):
            done = cli(*command, *options)
            assert done.returncode == 0, done.stderr
            assert shown in done.stdout
            assert hidden not in done.stdout
    assert "related" in cli("get", step.id).stdout
    assert "related" not in cli("get", step.id, "--as-of", then).stdout
    assert "as of 2026-01-01" in cli("get", step.id, "--as-of", "2026-01-01").stderr


def test_timeline_shows_what_came_before_and_after(cli: Cli, path: Path):
    with satchel.open(path) as bag:
        line = [bag.add(f"step {day}", session="s1", at=f"2026-02-0{day}").id for day in range(1, 8)]
        bag.add("elsewhere", session="s2", at="2026-02-04")
    found = json.loads(cli("timeline", line[3], "--before", "2", "--after", "1", "--json").stdout)
    assert [each["id"] for each in found["before"]] == line[1:3]
    assert found["focus"]["id"] == line[3]
    assert [each["id"] for each in found["after"]] == line[4:5]
    text = cli("timeline", line[3], "--before", "0").stdout
    assert text.startswith("▶ ")
    assert [text.index(f"step {day}") for day in (4, 5, 6, 7)] == sorted(
        text.index(f"step {day}") for day in (4, 5, 6, 7)
    )
    assert "step 3" not in text
    assert "elsewhere" not in text


def test_history_tells_every_change_oldest_first_even_after_a_purge(cli: Cli, path: Path):
    memory = fill(path)[0]
    cli("update", memory.id, "--title", "Rotation of keys")
    done = cli("history", memory.id)
    assert [line.split()[2] for line in done.stdout.splitlines() if line[0] != " "] == ["add", "update"]
    assert "    title: Key rotation → Rotation of keys" in done.stdout
    entries = json.loads(cli("history", memory.id, "--json").stdout)["changes"]
    assert entries[1]["changes"]["title"] == ["Key rotation", "Rotation of keys"]
    cli("forget", "--purge", memory.id)
    purged = json.loads(cli("history", memory.id, "--json").stdout)["changes"]
    assert [entry["action"] for entry in purged] == ["purge"]


def test_stats_count_by_kind_tier_status_and_project(cli: Cli, path: Path):
    memories = fill(path)
    cli("forget", memories[0].id)
    found = json.loads(cli("stats", "--json").stdout)
    assert (found["memories"], found["current"]) == (6, 5)
    assert found["tokens"] == sum(memory.tokens for memory in memories)
    assert found["by_kind"]["decision"] == 1
    assert found["by_tier"] == {"conversation": 1, "knowledge": 5}
    assert found["by_project"]["thesis"] == 1
    rows = dict(line.rsplit(maxsplit=1) for line in cli("stats").stdout.splitlines())
    assert rows["memories"] == "6"
    assert rows["kind decision"] == "1"
    assert rows["oldest"] == "2026-02-10"
    assert json.loads(cli("stats", "--json", "--project", "thesis").stdout)["memories"] == 1


def test_another_org_sees_nothing(cli: Cli, path: Path):
    memory = fill(path)[0]
    assert ids(cli("search", "rotation", "--org", "other", "--json")) == []
    assert cli("get", memory.id, "--org", "other").returncode == 2
