"""A store searched both ways: its scope read whole, and found by the indexes alone."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import satchel
from satchel import Satchel
from satchel.recall import candidates

Opening = Callable[..., Satchel]


@pytest.fixture(params=["whole", "by index"])
def opening(request, path: Path, monkeypatch) -> Opening:
    """Opens a store in memory whose scopes are read whole, or one in a file where only the indexes are asked."""
    if request.param == "whole":
        return lambda **options: satchel.open(":memory:", **options)
    monkeypatch.setattr(candidates, "SMALL", 0)
    return lambda **options: satchel.open(path, **options)


@pytest.fixture
def notes(opening: Opening) -> Iterator[Satchel]:
    with opening() as opened:
        yield opened


@pytest.fixture
def words(opening: Opening) -> Iterator[Satchel]:
    """A store that is searched without vectors."""
    with opening(embedder="none") as opened:
        yield opened
