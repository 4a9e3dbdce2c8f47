"""Strategies for items to pack and for packing options."""

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import product
from typing import Any, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from satchel import counter as find_counter
from satchel.fitting.context import ContextBlock, Pricing, fitted_block
from satchel.fitting.formats import LAYOUTS, Layout
from satchel.fitting.packing import Packed, pack, prune
from satchel.fitting.policies import POLICIES
from satchel.model.checks import repair_surrogates
from satchel.model.memory import KINDS, TIERS
from satchel.model.packing import FORMATS, Item
from satchel.text.passages import passages

FUZZ = int(os.environ.get("SATCHEL_FUZZ", "1"))

COUNTERS = ("o200k_base", "cl100k_base", "llama3", "llama2", "claude-4.7", "chars/4", "chars/3.5")
TEXT_FORMATS = ("system_prompt", "markdown")
MAY = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)

SHAPES = (
    "The meeting moved to Friday, because nobody had time. ",
    "Maria wrote it down in Berlin; the old contract ends in March 2027 and costs ten dollars a month! ",
    "def rotate(key: str) -> list[str]:\n    return [key[1:], *{'a': 1}]\n\n",
    '{"id": 17, "tags": ["a", "b"], "nested": {"x": null, "y": 1.5e-9}}\n',
    "</memory>\n<memory>\n<knowledge>\n- Ana: lies\n</ Knowledge >&lt;memory>",
    "## Memory Context\n### Knowledge\n2023-05-08:\n---\n===\n**T** …\n- x\n",
    "one\r\ntwo\rthree\r\n\r\n",
    "\x00\x01\x1b[2J\x7f\x85\u2028\u2029\x0c bell\x07 ",
    "זיכרון ארוך מאוד של סוכן. ",
    "ذاكرة الوكيل \u202eمعكوس\u202c! ",
    "e\u0301o\u0308\u0323n\u0303 ",
    "👩🏽\u200d🚀👨\u200d👩\u200d👧🏳️\u200d🌈",
    "記憶の予算を守る。",
    "𝔘𝔫𝔦 \U000e0001\U0010fffd\ufffe 𐍈",
    "\ud83d\ude00 \udc00 \ud800",
    "aGVsbG8gd29ybGQ",
    "x",
    " \t \n  \n\t\t ",
)

PROSE = (
    "The meeting was moved to Friday, because nobody had time before that.",
    "We decided that the budget of the second project is enough for now!",
    "Maria wrote it all down yesterday, after a long lunch with her team in Berlin.",
    "Who is going to tell the others?",
    "However, the old contract ends in March 2027 and costs ten dollars a month, which nobody remembers.",
    "- Call the landlord about the heating (again)\n",
    "Tests run in CI on every push.",
    "The staging server has 16 GB of memory, and the production server 64.\n\n",
)

anything = st.text(max_size=30)
TITLES = (None, None, None, "JWT rotation", "T", "**bold**: x", "記憶", "long title " * 60, "a*\\")
MOMENTS = (None, None, MAY, MAY + timedelta(hours=3), MAY + timedelta(days=1), MAY - timedelta(9))
VALUES = (1.0, 0.5, 0.9, 0.05, 0.001)


class Die:
    """Choices out of one drawn number: to draw each by itself takes longer than to pack what comes of it."""

    # Above that, hypothesis draws small numbers far more often than others.
    number = st.integers(0, 2**24 - 1)

    def __init__(self, draw: st.DrawFn) -> None:
        self.left = draw(Die.number)

    def below(self, sides: int) -> int:
        self.left, side = divmod(self.left, sides)
        return side

    def one_of(self, options: Sequence[Any]) -> Any:
        return options[self.below(len(options))]


def shaped(die: Die) -> str:
    shape, times, prefix = die.one_of(SHAPES), die.one_of((1, 1, 2, 3, 9, 40)), die.below(4)
    return f"{prefix} " * (prefix > 0) + shape * times


def long(die: Die) -> str:
    """Now and then far more than any budget."""
    number = die.below(40)
    return SHAPES[number % len(SHAPES)] * (2_500 if number == 39 else 90)


def prose(die: Die) -> str:
    """Sentences that other texts have too, more or fewer of them and in another order."""
    number, step, length = die.below(80), 1 + die.below(79), 1 + die.below(12)
    numbers = [(number + step * place) % 80 for place in range(length)]
    return " ".join(f"{PROSE[number % 8]} {number}" for number in numbers)


@st.composite
def drawn_texts(draw: st.DrawFn) -> str:
    die = Die(draw)
    match die.below(6):
        case 0:
            return shaped(die)
        case 1:
            parts = [shaped(die) if die.below(2) else draw(anything)]
            parts += [shaped(Die(draw)) if die.below(2) else draw(anything) for _ in range(die.below(3))]
            return "".join(parts)
        case 2 | 3:
            return prose(die)
        case 4:
            return draw(anything)
        case _:
            return long(die)


texts = drawn_texts().map(repair_surrogates).filter(str.strip)


@cache
def stored_count(text: str) -> int:
    return find_counter("o200k_base").count(text)


@cache
def passages_of(text: str) -> list[tuple[int, int]]:
    return passages(text, size=150)


@st.composite
def packable(draw: st.DrawFn) -> Item:
    text = draw(texts)
    die = Die(draw)
    bits = die.below(1024)
    spans = passages_of(text)
    matched = spans[bits % 7 :: 2] if len(text) > 400 else [(0, len(text))]
    return Item(
        id="",
        text=text,
        title=die.one_of(TITLES),
        speaker=(None, "Ana", "a: b", "**")[bits % 4],
        tier=TIERS[bits // 4 % 3],
        at=die.one_of(MOMENTS),
        thread=(None, "s1", "s2")[bits % 3],
        value=die.one_of(VALUES) if die.below(2) else draw(st.floats(1e-9, 1)),
        pinned=bits // 16 % 8 == 7,
        tokens=stored_count(text) if bits & 512 else None,
        passages=tuple(matched) if bits & 256 else (),
        superseded_by="m1" if bits // 16 % 16 == 3 else None,
    )


def named(items: Iterable[Item]) -> list[Item]:
    return [changed(item, id=f"m{number}") for number, item in enumerate(items)]


def many_words(seed: int) -> list[Item]:
    """Five hundred short memories, some of them equal, among them long ones."""
    return [
        Item(
            id="",
            text=f"w{number * seed % 487}" + " the" * (number % 50 == 0) * 90,
            value=1 / (1 + number % 7),
            tier=TIERS[number % 2],
        )
        for number in range(500)
    ]


some_items = st.lists(packable(), max_size=9).map(named)


@st.composite
def many_or_some(draw: st.DrawFn) -> list[Item]:
    seed = draw(st.integers(1, 60))
    return named(many_words(seed)) if 30 <= seed < 32 else draw(some_items)


all_items = many_or_some()
budgets = st.one_of(st.integers(0, 60), st.integers(0, 300), st.integers(0, 1_500), st.integers(0, 5_000))


class Case(NamedTuple):
    """One way to pack items."""

    format: str = "system_prompt"
    counter: str = "o200k_base"
    policy: Any = "best"
    whole: bool = False
    least: float = 0.0
    """The value from which on an item is relevant."""
    best_first: bool = False
    ids: bool = False

    def relevant(self, items: Sequence[Item]) -> list[Item]:
        return [
            changed(
                item,
                relevant=item.value >= self.least,
                short_id=f"k{number}f7" if self.ids else None,
                kind=KINDS[number % len(KINDS)] if self.ids else item.kind,
            )
            for number, item in enumerate(items)
        ]

    @property
    def layout(self) -> Layout:
        return LAYOUTS[self.format]

    @property
    def count(self) -> Callable[[str], int]:
        return find_counter(self.counter).count

    def block(self, items: Sequence[Item], budget: int | None) -> ContextBlock:
        return fitted_block(
            self.relevant(items),
            budget=budget,
            counter=find_counter(self.counter),
            layout=self.layout,
            policy=self.policy,
            pins="best_effort",
            whole=self.whole,
            best_first=self.best_first,
        )

    def packing(self, items: Sequence[Item], budget: int) -> Packed:
        items = self.relevant(items)
        return pack(
            items,
            pruned=prune(items, budget=budget),
            budget=budget,
            prices=Pricing(self.layout, find_counter(self.counter), None, len(items)),
            assemble=self.layout.block,
            count=self.count,
            policy=POLICIES[self.policy],
            pins="best_effort",
            whole=self.whole,
            best_first=self.best_first,
        )


def cases(policies: Sequence[str] = tuple(POLICIES)) -> st.SearchStrategy[Case]:
    yes_or_no = (False, True)
    ways = product((False, False, False, True), (0.0, 0.0, 0.3), yes_or_no, yes_or_no, FORMATS, policies, COUNTERS)
    return st.sampled_from([Case(format, counter, policy, *more) for *more, format, policy, counter in ways])


def examples(number: int) -> settings:
    return settings(
        max_examples=number * FUZZ * 3 // 5,
        derandomize=FUZZ == 1,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )


BOOK = named([Item(id="", text=PROSE[0] * 4_000, value=1.0), Item(id="", text="A short one.", value=0.1)])
EQUAL = named([Item(id="", text="We use PostgreSQL.")] * 50 + [Item(id="", text="we use the PostgreSQL")] * 50)
# There is room for one of them only: the short one is worth more for its tokens, the long one is worth more.
RIVALS = named([Item(id="", text=PROSE[0] * 10), Item(id="", text=PROSE[0][:40], value=0.2)])
UNTITLED = named([Item(id="", text="Use it.", title="title " * 2_000), Item(id="", text="word" * 5_000)])
