"""A budget is a limit: only relevant memories are returned, and none if none is relevant."""

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

import satchel
from satchel import Draft, InputError, Satchel
from tables import each_row

pytestmark = pytest.mark.usefixtures("as_installed")

NOW = datetime(2026, 10, 15, 10, tzinfo=UTC)
STEPS = (0.0, 0.01, 0.05, 0.12, 0.3, 0.6, 0.9, 1.0)

SHOP = (
    ("2026-03-04", "error", "The checkout went down", "Payments failed from 14:05 to 14:40. The certificate of the "
     "payment gateway had expired and nobody got the warning mail."),
    ("2026-03-05", "fix", None, "Certificates are renewed by a job now, and an alarm rings before one ends."),
    ("2026-04-11", "decision", None, "Pictures of products are served as AVIF, with JPEG for old browsers."),
    ("2026-04-20", "preference", None, "Mara wants reviews in the morning, never after 17:00."),
    ("2026-05-02", "procedure", "Cutting a release", "1. Freeze main at noon.\n2. Run the smoke tests twice.\n"
     "3. Tag the commit and let the pipeline build it.\n4. Deploy to one shop first, wait for an hour.\n"
     "5. Deploy to all shops and post the notes in the channel."),
    ("2026-05-20", "observation", None, "The warehouse in Lyon closes for two weeks in August."),
    ("2026-01-10", "fact", None, "Our CI runs on Jenkins."),
    ("2026-08-15", "fact", None, "We moved CI from Jenkins to GitHub Actions."),
    ("2026-08-08", "lesson", None, "Never import the supplier's price list on a Friday: the commas are wrong."),
    ("2026-09-01", "todo", None, "Ask the landlord for a second parking space."),
    ("2026-09-20", "fact", None, "Invoices are numbered by month since the audit."),
    ("2026-10-02", "observation", None, "Two customers from Quebec could not enter their postal code."),
)  # fmt: skip


@pytest.fixture
def shop(notes: Satchel) -> Satchel:
    notes.add_many([Draft(text, title=title, kind=kind, at=at) for at, kind, title, text in SHOP])
    notes.catch_up()
    return notes


def ids(hits: Sequence[satchel.Hit]) -> list[str]:
    return [hit.memory.id for hit in hits]


def test_the_budget_is_a_limit_and_not_a_target(shop):
    question = "Why did the checkout go down?"
    block = shop.context(question, token_budget=500, as_of=NOW)
    assert "certificate of the payment gateway had expired" in block.text
    assert block.facts_included <= 3
    filled = shop.context(question, token_budget=500, as_of=NOW, min_relevance=0)
    assert filled.facts_included == len(SHOP)
    assert block.token_count < filled.token_count / 2
    assert {entry.reason for entry in block.receipt.left_out} == {"not relevant"}
    assert block.irrelevant == len(SHOP) - block.facts_included


@pytest.mark.parametrize(
    "question", ["Who won the chess championship in Oslo?", "How long does a sourdough have to rise?"]
)
def test_a_question_that_nothing_here_answers_is_met_with_silence(shop, question):
    hits = shop.search(question, as_of=NOW)
    assert (len(hits), hits.text, hits.omitted) == (0, "", 0)
    block = shop.context(question, token_budget=500, as_of=NOW)
    assert (block.text, block.token_count, block.facts_included) == ("", 0, 0)
    assert block.smallest_budget is None
    assert shop.context_pack(question, as_of=NOW).memories == ()


def test_nothing_relevant_nothing_matched_and_nothing_fitted_are_told_apart(shop):
    weak = shop.search("How long does the landlord's dough have to rise?", as_of=NOW, min_relevance=1.0)
    assert (len(weak), weak.omitted) == (0, 0)
    assert weak.irrelevant > 0
    unmatched = shop.search("zzzz qqqq", as_of=NOW)
    assert (len(unmatched), unmatched.irrelevant, unmatched.smallest_budget) == (0, 0, None)
    unfitted = shop.search("Why did the checkout go down?", as_of=NOW, token_budget=3)
    assert len(unfitted) == 0
    assert unfitted.omitted > 0
    assert unfitted.smallest_budget > 3


@each_row(
    "question",
    ["Why did the checkout go down?", "What does our CI run on?", "How do we cut a release?", "Mara", "open todos"],
)
def test_a_higher_min_relevance_gives_a_subset(shop, question):
    found = {least: ids(shop.search(question, as_of=NOW, min_relevance=least)) for least in STEPS}
    blocks = {
        least: set(ids(shop.context(question, token_budget=None, as_of=NOW, min_relevance=least).hits))
        for least in STEPS
    }
    for lower, higher in itertools.pairwise(STEPS):
        # What stays is the head of the ranking.
        assert found[lower][: len(found[higher])] == found[higher]
        assert blocks[higher] <= blocks[lower]


def test_every_hit_has_the_relevance_that_was_asked_for_and_none_that_is_left_out_has(shop):
    everything = shop.search("Why did the checkout go down?", as_of=NOW, min_relevance=0, limit=50)
    kept = shop.search("Why did the checkout go down?", as_of=NOW, min_relevance=0.3, limit=50)
    assert ids(kept) == [hit.memory.id for hit in everything if hit.relevance >= 0.3]
    assert kept.irrelevant == len(everything) - len(kept)
    relevances = [hit.relevance for hit in everything]
    assert relevances == sorted(relevances, reverse=True)
    assert all(0 <= each <= 1 for each in relevances)


def test_the_best_match_comes_whole_before_anything_weaker_gets_a_token(shop):
    checklist = SHOP[4][3]
    whole = shop.context("How do I cut a release?", token_budget=500, as_of=NOW)
    assert all(line in whole.text for line in checklist.split("\n"))
    # With room for hardly more than it, it is there, and what is weaker is not.
    tight = shop.context("How do I cut a release?", token_budget=whole.receipt.kept[0].cost + 45, as_of=NOW)
    assert tight.receipt.kept[0].headline == "Cutting a release"
    assert tight.receipt.kept[0].level == "full"


@each_row("budget", range(25, 120, 10))
def test_of_a_best_match_that_does_not_fit_the_needed_part_comes_first(shop, budget):
    block = shop.context("How do I cut a release?", token_budget=budget, as_of=NOW)
    assert block.token_count <= budget
    kept = block.receipt.kept
    if kept:
        assert kept[0].headline == "Cutting a release"


def test_under_a_tight_budget_the_outdated_goes_first(shop):
    question = "What does our CI run on?"
    both = shop.context(question, token_budget=500, as_of=NOW)
    assert "- (older) Our CI runs on Jenkins" in both.text
    for budget in range(20, both.token_count):
        text = shop.context(question, token_budget=budget, as_of=NOW).text
        assert "Our CI runs on Jenkins" not in text or "GitHub Actions" in text


def test_of_a_long_memory_only_the_passages_that_matter_come_and_the_receipt_says_so(notes):
    chapters = [
        f"Chapter {number}. " + " ".join(f"The {thing} of the old mill was painted {colour}." for thing in things)
        for number, colour, things in (
            (1, "green", ("door", "wheel", "roof", "gate", "fence", "shed", "bench", "ladder", "window", "cart")),
            (
                2,
                "blue",
                ("porch", "chimney", "sluice", "hatch", "bridge", "sign", "well", "stair", "barrel", "rail"),
            ),
            (
                3,
                "white",
                ("kitchen", "parlour", "cellar", "attic", "pantry", "hall", "oven", "stove", "sink", "tap"),
            ),
        )
    ]
    secret = "The spare key of the boathouse hangs behind the third oar."
    text = "\n\n".join([*chapters, secret + " " + "Ask Jonas if it is missing. " * 3, *chapters])
    notes.add(text, title="All about the mill")
    notes.add_many(map(Draft, (each[3] for each in SHOP)))
    notes.catch_up()
    block = notes.context("Where does the spare key of the boathouse hang?", token_budget=4_000)
    assert secret in block.text
    (entry,) = [each for each in block.receipt.kept if each.headline == "All about the mill"]
    assert entry.level == "passages"
    assert block.complete
    whole = notes.context("Where does the spare key of the boathouse hang?", token_budget=4_000, min_relevance=0)
    assert block.token_count < whole.token_count / 2
    assert next(each for each in whole.receipt.kept if each.id == entry.id).level == "full"


def test_a_filter_is_not_answered_with_nothing_relevant(shop):
    hits = shop.search("How long does a sourdough have to rise?", kind="todo", as_of=NOW)
    assert not hits.matched
    assert [hit.memory.kind for hit in hits] == ["todo"]


def test_what_is_pinned_comes_whatever_its_relevance(shop):
    shop.add("Answer in French.", pinned=True, at=NOW)
    block = shop.context("How long does a sourdough have to rise?", token_budget=300, as_of=NOW)
    assert "Answer in French." in block.text
    assert block.facts_included == 1


def test_without_a_question_relevance_does_not_matter(shop):
    assert shop.context(token_budget=2_000, min_relevance=1.0).facts_included == len(SHOP)


@each_row("wrong", [-0.1, 1.01, float("nan"), "much", True, [0.5]])
def test_a_min_relevance_that_is_no_share_is_one_line(shop, wrong):
    for call in (shop.search, shop.context, shop.context_pack):
        with pytest.raises(
            InputError, match=r"^min_relevance .* (?:is not a number|is out of range).*0 to 1$"
        ) as told:
            call("Why did the checkout go down?", min_relevance=wrong)
        assert "\n" not in str(told.value)


def test_a_single_memory_is_found_by_its_words_and_by_its_meaning(notes):
    notes.add("We rotate JWTs every hour.", title="JWT rotation", kind="decision")
    for question in ("How do we rotate tokens?", "jwt", "token rotation", "How often are JWTs rotated?"):
        assert len(notes.search(question)) == 1, question
    assert len(notes.search("Who won the chess championship in Oslo?")) == 0


def test_more_budget_never_gives_less_of_what_is_relevant(shop):
    question = "What happened to our CI and the certificates?"
    kept: set[str] = set()
    for budget in range(40, 400, 20):
        block = shop.context(question, token_budget=budget, as_of=NOW)
        assert block.token_count <= budget
        assert len(block.hits) >= len(kept)
        kept = set(ids(block.hits))


def test_a_query_of_keywords_finds_every_memory_that_has_them_all(shop):
    lengths = [f"The rotation of the {'very ' * number}old millstone, part {number}." for number in range(0, 60, 6)]
    shop.add_many(map(Draft, lengths))
    shop.catch_up()
    for query in ("millstone", "millstone rotation"):
        hits = shop.search(query, limit=50)
        assert {hit.memory.text for hit in hits} >= set(lengths), query
    # A question is answered by some of them.
    assert len(shop.search("How many turns does it take?", limit=50)) < len(lengths)
