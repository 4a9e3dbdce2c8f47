"""A context pack as JSON moves from one store to another with the real command."""

import json
from pathlib import Path

import pytest
from complaint import complaint
from sample import contents

import satchel
from conftest import Cli
from satchel import Draft, Memory

CARRIED = (
    "id",
    "text",
    "title",
    "kind",
    "tier",
    "tags",
    "importance",
    "confidence",
    "pinned",
    "at",
    "speaker",
    "scope",
)


@pytest.fixture
def thesis(path: Path) -> list[Memory]:
    drafts = [
        Draft(
            "We rotate JWTs every hour.",
            title="JWT rotation",
            kind="decision",
            tags=["auth", "ops"],
            importance=0.9,
        ),
        Draft("سلام 🚀\n---\n# not a heading", title="長い", kind="fact", tier="conversation", speaker="Ana: B"),
        Draft("Never deploy on a Friday.", pinned=True, tier="working", confidence=0.4, user="ana", session="s1"),
    ]
    with satchel.open(path) as bag:
        view = bag.scoped(project="# odd\nname")
        added = [view.add_many([draft])[0] for draft in drafts]
        return [view.update(each.id, at=f"2026-02-1{day}T09:30:00Z") for day, each in enumerate(added)]


@pytest.fixture
def pack(cli: Cli, thesis: list[Memory], tmp_path: Path) -> Path:
    done = cli("context-pack", "--project", "# odd\nname", "-o", "context.json")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("wrote 3 memories to context.json")
    return tmp_path / "context.json"


def carried(path: Path) -> list[dict[str, object]]:
    with satchel.open(path, create=False) as bag:
        return sorted(
            ({name: getattr(memory, name) for name in CARRIED} for memory in bag.recent()),
            key=lambda each: each["at"],
        )


def test_memories_arrive_in_another_store_as_they_were(cli: Cli, path: Path, pack: Path, tmp_path: Path):
    done = cli("--db", "other.db", "import", pack)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("added 3, updated 0, unchanged 0,")
    assert carried(tmp_path / "other.db") == carried(path)
    assert "JWT rotation" in cli("--db", "other.db", "search", "rotate JWTs").stdout


def test_importing_the_same_pack_again_changes_nothing(cli: Cli, path: Path, pack: Path, tmp_path: Path):
    cli("--db", "other.db", "import", pack)
    before = contents(tmp_path / "other.db"), contents(path)
    for store in ("other.db", "notes.db"):
        assert cli("--db", store, "import", pack).stdout.startswith("added 0, updated 0, unchanged 3,")
    assert (contents(tmp_path / "other.db"), contents(path)) == before


@pytest.mark.parametrize("indent", [2, None])
def test_a_pack_that_was_laid_out_anew_is_read_too(
    cli: Cli, path: Path, pack: Path, tmp_path: Path, indent: int | None
):
    pack.write_text(json.dumps(json.loads(pack.read_text()), indent=indent, sort_keys=True))
    done = cli("--db", "other.db", "import", "-", stdin=pack.read_bytes())
    assert done.stdout.startswith("added 3,"), done.stderr
    assert carried(tmp_path / "other.db") == carried(path)


@pytest.mark.parametrize("indent", [2, None])
def test_a_truncated_pack_is_one_clear_line_that_names_the_file_and_changes_nothing(
    cli: Cli, path: Path, pack: Path, tmp_path: Path, indent: int | None
):
    with satchel.open(tmp_path / "other.db") as bag:
        bag.add("was there")
    before = contents(tmp_path / "other.db")
    whole = json.dumps(json.loads(pack.read_text()), indent=indent) if indent else pack.read_text()
    for share in (0.4, 0.7, 0.99):
        pack.write_text(whole[: int(len(whole) * share)])
        said = complaint(cli("--db", "other.db", "import", pack))
        assert f"{pack}: not a whole JSON object" in said
    assert contents(tmp_path / "other.db") == before


def test_a_pack_of_a_later_version_is_refused(cli: Cli, pack: Path):
    pack.write_text(pack.read_text().replace('"version":1', '"version":99'))
    assert "version 99 is not known here" in complaint(cli("--db", "other.db", "import", pack))


def test_a_bad_memory_in_a_pack_is_named_by_its_line_and_the_others_arrive(cli: Cli, pack: Path):
    lines = pack.read_text().splitlines(keepends=True)
    lines[2] = lines[2].replace('"kind":"', '"kind":"un')
    pack.write_text("".join(lines))
    done = cli("--db", "other.db", "import", pack)
    assert done.returncode == 1
    assert done.stdout.startswith("added 2,")
    assert done.stderr.startswith("line 3: ")
    assert done.stderr.count("\n") == 1
