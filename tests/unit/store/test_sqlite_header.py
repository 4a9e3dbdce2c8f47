"""What the first bytes of a file tell of a store."""

import contextlib
from pathlib import Path

import apsw
import pytest

import satchel
from satchel.store.sqlite.header import is_current_store


def pragma(path: Path, name: str, value: int) -> None:
    with contextlib.closing(apsw.Connection(str(path))) as db:
        db.pragma(name, value)


def test_a_store_of_this_version_is_recognised(path: Path):
    satchel.open(path).close()
    assert is_current_store(path)


@pytest.mark.parametrize("name", ["user_version", "application_id"])
def test_a_store_of_another_version_or_program_is_not(path: Path, name: str):
    satchel.open(path).close()
    pragma(path, name, 4711)
    assert not is_current_store(path)


@pytest.mark.parametrize("content", [None, b"", b"no longer a store" * 5000])
def test_what_is_no_database_is_not(path: Path, content: bytes | None):
    if content is not None:
        path.write_bytes(content)
    assert not is_current_store(path)
    assert not is_current_store(path.parent)
