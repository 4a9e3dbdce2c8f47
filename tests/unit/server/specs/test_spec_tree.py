"""Files are read only inside the project, whatever links and special files there are."""

import os
import socket
from pathlib import Path

import pytest
from spec_projects import write

from satchel.errors import InputError
from satchel.server.specs.specs import Specs
from satchel.server.specs.tree import MOST_BYTES, Tree, shown


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, {"outside/secret.md": "secret", "project/docs/design.md": "design"})
    return tmp_path / "project"


def read(root: Path, path: str) -> tuple[str, str]:
    tree = Tree(root)
    place = tree.look(path)
    assert place is not None
    return tree.read(place)


@pytest.mark.parametrize(
    "folder", ["/etc", "..", "docs/../..", "a/../docs", "..\\up", "C:\\docs", "C:docs", "\\docs", ""]
)
def test_a_folder_outside_is_refused(root, folder):
    with pytest.raises(InputError, match=r"not inside the project|is not a path"):
        Specs(root, folder=folder)


def test_a_folder_with_a_nul_is_refused(root):
    with pytest.raises(InputError, match="is not a path"):
        Specs(root, folder="docs\0")


@pytest.mark.parametrize("target", ["../outside", "../nowhere", "/"])
def test_a_folder_that_is_a_link_to_the_outside_is_refused(root, target):
    (root / "specs").symlink_to(target)
    with pytest.raises(InputError, match="'specs' is not inside the project"):
        Specs(root, folder="specs")


def test_a_folder_may_be_written_in_several_ways_and_need_not_be_there(root):
    assert Specs(root, folder="./docs//").folder == "docs"
    assert Specs(root, folder=".").folder == ""
    assert Specs(root, folder="not/there").survey() == ((), ())


@pytest.mark.parametrize("given", ["nowhere", "docs/design.md"])
def test_a_root_that_is_no_folder_is_refused(root, given):
    with pytest.raises(InputError, match="is not a folder"):
        Specs(root / given)


def test_a_root_may_be_a_link(root, tmp_path):
    (tmp_path / "link").symlink_to(root)
    assert read(tmp_path / "link", "docs/design.md") == ("design", "")


@pytest.mark.parametrize("target", ["../../outside/secret.md", "/etc/hostname", "../../outside"])
def test_a_link_to_the_outside_is_not_followed(root, target):
    (root / "docs/link.md").symlink_to(target)
    assert read(root, "docs/link.md") == ("", "outside the project, not read")


def test_a_link_through_a_folder_outside_is_not_followed(root):
    (root / "docs/far").symlink_to("../../outside")
    assert read(root, "docs/far/secret.md") == ("", "outside the project, not read")


def test_a_root_beside_one_of_a_longer_name_does_not_hold_it(tmp_path):
    write(tmp_path, {"project/a.md": "", "project2/b.md": "other"})
    (tmp_path / "project/link.md").symlink_to("../project2/b.md")
    assert read(tmp_path / "project", "link.md") == ("", "outside the project, not read")


def test_a_link_that_stays_inside_is_followed(root):
    (root / "docs/tasks.md").symlink_to("design.md")
    assert read(root, "docs/tasks.md") == ("design", "")


def test_links_in_a_circle_are_told_and_links_to_nowhere_are_nothing(root):
    (root / "docs/circle.md").symlink_to("circle.md")
    (root / "docs/nowhere.md").symlink_to("missing.md")
    assert read(root, "docs/circle.md") == ("", "not a regular file, not read")
    assert read(root, "docs/circle.md/below") == ("", "too many levels of symbolic links, not read")
    assert Tree(root).look("docs/nowhere.md") is None


def test_pipes_and_sockets_are_never_opened(root, monkeypatch):
    os.mkfifo(root / "docs/pipe.md")
    monkeypatch.chdir(root / "docs")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.md")
        monkeypatch.setattr(os, "open", pytest.fail)
        assert read(root, "docs/pipe.md") == ("", "not a regular file, not read")
        assert read(root, "docs/socket.md") == ("", "not a regular file, not read")


def test_a_file_that_becomes_a_pipe_in_between_is_not_waited_for(root):
    tree = Tree(root)
    place = tree.look("docs/design.md")
    (root / "docs/design.md").unlink()
    os.mkfifo(root / "docs/design.md")
    assert tree.read(place) == ("", "not a regular file, not read")


def test_a_file_that_becomes_a_link_in_between_is_not_followed(root):
    tree = Tree(root)
    place = tree.look("docs/design.md")
    (root / "docs/design.md").unlink()
    (root / "docs/design.md").symlink_to("../../outside/secret.md")
    text, trouble = tree.read(place)
    assert text == ""
    assert trouble.endswith(", not read")


def test_a_folder_is_no_file(root):
    (root / "docs/tasks.md").mkdir()
    assert read(root, "docs/tasks.md") == ("", "a folder, not read")


def test_what_the_system_refuses_is_told(root, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    tree = Tree(root)
    place, folder = tree.look("docs/design.md"), tree.look("docs")
    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "listdir", refuse)
    monkeypatch.setattr(os, "lstat", refuse)
    assert tree.read(place) == ("", "permission denied, not read")
    assert tree.children(folder, bool) == [folder._replace(read_error="permission denied, not read")]
    assert tree.look("docs/design.md").read_error == "permission denied, not read"


def test_a_large_file_is_not_read(root):
    write(root, {"docs/large.md": b"x" * 3_210_000, "docs/most.md": b"x" * MOST_BYTES})
    assert read(root, "docs/large.md") == ("", "too large: 3.2 MB, not read")
    assert len(read(root, "docs/most.md")[0]) == MOST_BYTES


def test_a_file_that_grows_in_between_is_not_read_to_its_end(root):
    tree = Tree(root)
    place = tree.look("docs/design.md")
    write(root, {"docs/design.md": b"x" * (MOST_BYTES + 500_000)})
    assert tree.read(place) == ("", "too large: 1.0 MB, not read")


@pytest.mark.parametrize("content", [b"caf\xe9", "utf-16".encode("utf-16"), b"\xed\xa0\x80"])
def test_what_is_not_utf_8_is_told(root, content):
    write(root, {"docs/design.md": content})
    assert read(root, "docs/design.md") == ("", "not UTF-8, not read")


def test_line_ends_and_a_mark_at_the_beginning_are_made_plain(root):
    write(root, {"docs/design.md": b"\xef\xbb\xbf# A\r\nb\rc\n"})
    assert read(root, "docs/design.md") == ("# A\nb\nc\n", "")


def test_names_are_shown_in_one_line_that_can_be_encoded():
    assert shown("docs/a\nb\tc\x1b[31m\udcff.md") == "docs/a b c�[31m�.md"
    assert shown("") == "."
