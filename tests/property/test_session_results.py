"""Results of every shape: each page is within its allocation, and all pages together are the original."""

import os
import re
from random import Random

import pytest

import satchel
from satchel.session.account import FLOOR
from tool_outputs import SHAPES, output

pytestmark = pytest.mark.slow

PLACE = re.compile(r"(\w+?)s? (\d[\d,]*)(?:–(\d[\d,]*))? of (\d+(?:,\d{3})*)")
RESULTS = 2_000 * int(os.environ.get("SATCHEL_FUZZ", "1"))
OF_EACH = RESULTS // len(SHAPES)
LARGEST = 5_000_000
LARGEST_OF = ("log", "diff", "json array", "one line", "base64", "cjk", "bytes")


@pytest.fixture(scope="module")
def bag(tmp_path_factory):
    with satchel.open(tmp_path_factory.mktemp("results") / "results.db") as opened:
        yield opened


def size_of(shape: str, number: int, rng: Random) -> int:
    """Mostly what tools say, some of it large, one of five megabytes, or for most shapes of one."""
    if number == 0:
        return LARGEST if shape in LARGEST_OF else LARGEST // 5
    return int(10 ** rng.uniform(0, 5.7 if number % 25 == 1 else 4.2))


def assert_positions(pages):
    """Each page of several says where it is: the units from the first that earlier pages have not shown whole."""
    units = characters = 0
    for page in pages if len(pages) > 1 else ():
        line = next(
            line for line in reversed(page.note.splitlines()) if line.startswith(("⚡ ", "📏 ")) and " of " in line
        )
        places = {unit: (first, last, total) for unit, first, last, total in PLACE.findall(line)}
        total = f"{page.total:,}"
        if page.unit != "characters" and (place := places.get(page.unit[:-1])):
            last = f"{units + page.returned:,}", f"{min(units + page.returned + 1, page.total):,}"
            assert (place[0], place[2]) == (f"{units + 1:,}", total)
            assert (place[1] or place[0]) in last
        if place := places.get("character"):
            end = f"{characters + len(page.content):,}"
            assert (place[0], place[1] or place[0]) == (f"{characters + 1:,}", end)
        assert places
        units, characters = units + page.returned, characters + len(page.content)


@pytest.mark.parametrize("shape", SHAPES)
def test_pages_are_within_their_allocation_and_join_to_the_original(bag, shape):
    rng = Random(shape)
    session = bag.session(f"pages of {shape}", holds="whole")
    count = session.counter.count
    handles = {}
    for number in range(OF_EACH):
        size = size_of(shape, number, rng)
        original = output(shape, size, number)
        asked = None if size > 500_000 else rng.choice((None, FLOOR, 700, 2_000, 8_000))
        shown = session.result(shape.replace(" ", "_"), original, max_tokens=asked, new_turn=True)
        handles[shown.handle] = original
        pages = [shown]
        # Of the largest, page by page, only the first few and those around a cursor further on.
        while pages[-1].cursor and (size <= 300_000 or len(pages) < 4):
            session.next_turn()
            pages.append(session.page(pages[-1].cursor, max_tokens=asked))
        for page in pages:
            assert count(page.text) == page.token_count <= page.allocation <= (asked or 8_000)
            assert page.text.startswith(page.content)
            assert page.text.endswith(page.note)
        if isinstance(original, bytes):
            assert pages[0].content == ""
            assert shown.handle in shown.text
            continue
        joined = "".join(page.content for page in pages)
        assert original.startswith(joined)
        assert_positions(pages)
        assert (joined == original) == (pages[-1].cursor is None)
        assert all(page.content for page in pages[1:])
        if pages[-1].cursor is None:
            assert sum(page.returned for page in pages) == shown.total
    for result in session.results(limit=10_000):
        assert len(result.digest) <= 500
    for handle, original in handles.items():
        assert session.expand(handle) == original


def test_all_pages_of_the_largest_json_join_to_it(bag):
    session = bag.session("all pages", holds="whole")
    original = output("json array", 2_000_000, 0)
    shown = session.result("list", original, new_turn=True)
    joined, pages = shown.content, 1
    while shown.cursor:
        shown = session.page(shown.cursor)
        session.next_turn()
        joined, pages = joined + shown.content, pages + 1
        assert session.counter.count(shown.text) <= shown.allocation <= 8_000
    assert joined == original
    assert pages > 50
