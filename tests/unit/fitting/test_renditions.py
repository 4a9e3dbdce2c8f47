"""One item at several levels of detail: full, excerpt, summary, title."""

from satchel.fitting.renditions import Rendition, renditions, tail
from satchel.model.packing import Item

SENTENCES = [f"Sentence number {number} says something about the contract." for number in range(40)]
LONG = " ".join(SENTENCES)


def span(first: int, last: int | None = None) -> tuple[int, int]:
    """Where these sentences stand in the long text."""
    end = SENTENCES[first if last is None else last]
    return LONG.index(SENTENCES[first]), LONG.index(end) + len(end)


def texts(item: Item) -> dict[str, str]:
    return {rendition.level: rendition.text(item) for rendition in renditions(item)}


def excerpt(*spans: tuple[int, int], text: str = LONG) -> str:
    return Rendition("excerpt", spans, 0.5).text(Item(id="x", text=text))


def test_a_short_text_without_a_title_is_there_whole_or_not_at_all():
    assert texts(Item(id="x", text="  We use PostgreSQL. ")) == {"full": "We use PostgreSQL."}


def test_a_title_can_stand_alone_and_has_no_text():
    assert texts(Item(id="x", text="We use it.", title="Storage")) == {"title": "", "full": "We use it."}


def test_a_long_text_has_its_first_sentences_as_a_summary():
    found = texts(Item(id="x", text=LONG))
    assert list(found) == ["summary", "full"]
    assert found["summary"] == " ".join(SENTENCES[:5]) + " …"
    assert len(found["summary"]) <= 302


def test_the_summary_has_at_least_one_sentence_however_long_it_is():
    first = "word " * 100 + "end."
    assert texts(Item(id="x", text=first + " Another one."))["summary"] == first + " …"


def test_where_it_is_known_what_matched_that_is_the_excerpt():
    found = renditions(Item(id="x", text=LONG, passages=(span(20, 21),)))
    assert [each.level for each in found] == ["excerpt", "full"]
    assert found[0].text(Item(id="x", text=LONG)) == f"… {SENTENCES[20]} {SENTENCES[21]} …"


def test_a_longer_excerpt_has_the_better_half_of_the_passages_and_at_most_four():
    found = renditions(Item(id="x", text=LONG, passages=tuple(span(2 * place) for place in range(7))))
    assert [len(each.spans) for each in found] == [1, 4, 1]
    found = renditions(Item(id="x", text=LONG, passages=tuple(span(place) for place in (4, 8, 12))))
    assert [each.spans for each in found[:-1]] == [(span(4),), (span(4), span(8))]


def test_passages_come_in_the_order_of_the_text_with_an_ellipsis_where_something_is_left_out():
    assert excerpt(span(30), span(10)) == f"… {SENTENCES[10]} …\n{SENTENCES[30]} …"


def test_adjacent_passages_are_merged():
    assert excerpt(span(11), span(10), span(12)) == f"… {' '.join(SENTENCES[10:13])} …"


def test_overlapping_passages_are_said_once():
    assert excerpt(span(10, 13), span(12)) == f"… {' '.join(SENTENCES[10:14])} …"
    assert excerpt(span(10, 12), span(12, 13)) == f"… {' '.join(SENTENCES[10:14])} …"


def test_at_the_beginning_and_at_the_end_nothing_is_left_out():
    assert excerpt(span(0)) == SENTENCES[0] + " …"
    assert excerpt(span(39)) == "… " + SENTENCES[39]
    assert excerpt(span(0, 39)) == LONG
    assert excerpt((2, 5), text="  one\n\n") == "one"


def test_a_part_is_worth_its_share_and_never_as_much_as_the_whole():
    found = renditions(Item(id="x", text=LONG, title="T", passages=(span(0, 9), span(10, 38))))
    shares = [each.share for each in found]
    assert shares == sorted(shares)
    assert shares[0] == 0.05
    assert shares[-1] == 1.0
    assert 0.2 < shares[1] < 0.3
    nearly_all = renditions(Item(id="x", text=LONG, passages=(span(0, 38),)))
    assert nearly_all[0].share == 0.95


def test_of_a_whole_book_a_few_pages_are_worth_much():
    book = LONG * 100
    assert renditions(Item(id="x", text=book, passages=((0, 2_000),)))[0].share == 0.5


def test_the_tail_goes_on_from_what_matched_best():
    item = Item(id="x", text=LONG, passages=(span(38), span(3)))
    assert tail(item) == ("… ", f"{SENTENCES[38]} {SENTENCES[39]}")
    assert tail(Item(id="x", text="\n " + LONG)) == ("", LONG)
    assert tail(Item(id="x", text=LONG, passages=(span(0),))) == ("", LONG)
