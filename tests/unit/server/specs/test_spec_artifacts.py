"""Artifacts are found by their names, each once, and read again only when they change."""

import os

import pytest
from spec_projects import KILN, write

from satchel.server.specs import documents
from satchel.server.specs.specs import Specs
from satchel.server.specs.tree import STAGES


def groups(root, **options):
    return [(document.group, document.path) for document in Specs(root, **options).survey().documents]


def test_the_stages_are_those_of_the_design():
    assert STAGES == (
        "principles", "charter", "specify", "business-rules", "clarify", "design", "tasks", "validate",
    )  # fmt: skip


def test_stages_come_in_their_order_then_decisions_then_changes():
    found = groups(KILN)
    stages = [group for group, _ in found[:7]]
    assert stages == [stage for stage in STAGES if stage != "validate"]
    assert next(path for group, path in found if group == "adrs") == "docs/adrs/0001-monolith.md"
    assert [group.partition("/")[0] for group, _ in found[7:]] == ["adrs"] * 6 + ["changes"] * 18


def test_files_are_known_by_the_name_of_their_stage_or_their_own_in_any_case(tmp_path):
    write(
        tmp_path,
        {"docs/SPECIFY.md": "a", "docs/Requirements.MD": "b", "docs/Clarify.md": "c", "docs/other.md": "d"},
    )
    assert groups(tmp_path) == [
        ("specify", "docs/Requirements.MD"),
        ("specify", "docs/SPECIFY.md"),
        ("clarify", "docs/Clarify.md"),
    ]


def test_both_folders_of_decisions_are_read_and_only_markdown_that_is_not_hidden(tmp_path):
    names = (
        "adr/2.md",
        "adrs/1.md",
        "adrs/.3.md",
        "adrs/4.txt",
        "adrs/deep/5.md",
        "changes/6.md",
        "changes/.x/7.md",
    )
    write(tmp_path, {f"docs/{name}": "text" for name in names})
    assert groups(tmp_path) == [("adrs", "docs/adr/2.md"), ("adrs", "docs/adrs/1.md")]


def test_changes_come_from_the_newest_and_equally_new_ones_by_name(tmp_path):
    write(tmp_path, {f"docs/changes/{slug}/{file}.md": "text" for slug in "abc" for file in ("spec", "tasks")})
    for file in tmp_path.rglob("*.md"):
        os.utime(file, (1_000, 1_000))
    os.utime(tmp_path / "docs/changes/b/tasks.md", (2_000, 2_000))
    assert [path for _, path in groups(tmp_path)] == [
        f"docs/changes/{slug}/{file}.md" for slug in "bac" for file in ("spec", "tasks")
    ]


def test_another_folder_can_be_chosen_even_the_root(tmp_path):
    write(tmp_path, {"specs/v2/design.md": "a", "tasks.md": "b"})
    assert groups(tmp_path, folder="specs/v2") == [("design", "specs/v2/design.md")]
    assert groups(tmp_path, folder=".") == [("tasks", "tasks.md")]


def test_what_links_make_stand_in_two_places_is_one_artifact(tmp_path):
    write(tmp_path, {"docs/adrs/1.md": "text", "docs/changes/a/spec.md": "text"})
    (tmp_path / "docs/adr").symlink_to("adrs")
    (tmp_path / "docs/changes/b").symlink_to("a")
    (tmp_path / "docs/changes/up").symlink_to("../..")
    assert groups(tmp_path) == [("adrs", "docs/adr/1.md"), ("changes/a", "docs/changes/a/spec.md")]


def test_folders_in_trouble_are_told(tmp_path):
    write(tmp_path, {"outside/1.md": "", "project/docs/design.md": "text", "project/docs/changes": "a file"})
    (tmp_path / "project/docs/adrs").symlink_to("../../outside")
    survey = Specs(tmp_path / "project").survey()
    assert [document.path for document in survey.documents] == ["docs/design.md"]
    assert survey.unread == (
        ("docs/adrs", "outside the project, not read"),
        ("docs/changes", "not a folder, not read"),
    )


@pytest.mark.parametrize("place", ["docs", "docs/changes/far"])
def test_a_folder_that_comes_to_lead_outside_later_is_told(tmp_path, place):
    write(tmp_path, {"outside/design.md": "secret", "project/docs/changes/a/spec.md": "text"})
    specs = Specs(tmp_path / "project")
    (tmp_path / "project" / place).parent.mkdir(exist_ok=True)
    if place == "docs":
        (tmp_path / "project/docs").rename(tmp_path / "project/old")
    (tmp_path / "project" / place).symlink_to(tmp_path / "outside")
    survey = specs.survey()
    assert survey.unread == ((place, "outside the project, not read"),)
    assert "secret" not in str(survey.documents)


def test_a_folder_that_links_to_itself_is_told(tmp_path):
    (tmp_path / "docs").symlink_to("docs")
    assert Specs(tmp_path).survey() == ((), (("docs", "not a regular file, not read"),))


def test_a_document_stays_the_same_until_its_file_changes(tmp_path):
    write(tmp_path, {"docs/design.md": "one", "docs/tasks.md": "two"})
    specs = Specs(tmp_path)
    first = specs.survey().documents
    second = specs.survey().documents
    assert [one is other for one, other in zip(first, second, strict=True)] == [True, True]
    write(tmp_path, {"docs/tasks.md": "six"})
    third = specs.survey().documents
    assert third[0] is first[0]
    assert third[1].text == "six"


def test_what_could_not_be_read_is_tried_again(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    write(tmp_path, {"docs/design.md": "one"})
    specs = Specs(tmp_path)
    with monkeypatch.context() as refusing:
        refusing.setattr(os, "open", refuse)
        assert specs.survey().documents[0].read_error == "permission denied, not read"
    assert specs.survey().documents[0].text == "one"


def test_no_more_files_are_read_than_the_limit_and_the_rest_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "MOST_FILES", 3)
    write(tmp_path, {f"docs/adrs/{number}.md": "text" for number in range(5)})
    survey = Specs(tmp_path).survey()
    assert [document.path for document in survey.documents] == [f"docs/adrs/{number}.md" for number in range(3)]
    ((path, reason),) = survey.unread
    assert path == "docs/adrs/3.md"
    assert reason.startswith("this and 1 more are beyond the ")


def test_no_more_bytes_are_read_than_the_limit_and_large_files_do_not_count(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "MOST_IN_ALL", 250)
    write(tmp_path, {f"docs/adrs/{number}.md": "x" * 100 for number in range(4)})
    write(tmp_path, {"docs/design.md": "x" * 2_000_000})
    survey = Specs(tmp_path).survey()
    assert [document.path for document in survey.documents] == [
        "docs/design.md",
        "docs/adrs/0.md",
        "docs/adrs/1.md",
    ]
    assert [unread.path for unread in survey.unread] == ["docs/adrs/2.md"]


def test_names_that_are_no_text_are_shown_all_the_same(tmp_path):
    folder = tmp_path / "docs/changes" / os.fsdecode(b"caf\xe9\n## Next")
    folder.mkdir(parents=True)
    (folder / "spec.md").write_text("text")
    assert groups(tmp_path)[0][1] == "docs/changes/caf� ## Next/spec.md"
