"""Packing and rendering candidates into a budget, compared with counting the final text once.

python -m bench.pack [--budget 2000] [--rounds 30]
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime

from bench.corpus import Corpus, vocabulary
from bench.table import print_table
from satchel.fitting.context import fitted_block
from satchel.fitting.formats import LAYOUTS
from satchel.model.packing import Item, PolicyName
from satchel.text.tokens import counter

NUMBERS = (50, 1_000, 10_000)
RUNS: tuple[tuple[str, PolicyName], ...] = (
    ("system_prompt", "best"),
    ("system_prompt", "greedy"),
    ("system_prompt", "tier"),
    ("markdown", "best"),
    ("raw", "best"),
)
COUNTER = counter("o200k_base")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--budget", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    rows: list[Sequence[str]] = [
        ("candidates", "format", "policy", "kept", "tokens", "ms", "× counting", "receipt ms")
    ]
    for number in NUMBERS:
        items = candidates(number)
        rows += [measured(items, format, policy, options.budget, options.rounds) for format, policy in RUNS]
    print_table(f"packing and rendering into {options.budget:,} tokens, medians of {options.rounds}", rows)
    print("  counting: the final text once, which the vocabulary has seen before; the costs of texts are known")
    return 0


def candidates(number: int) -> list[Item]:
    """Return turns, notes and documents, best first, with typical scores of a question: few high, most near 0."""
    rng = random.Random(7)
    items = []
    for place, fields in enumerate(Corpus(words=vocabulary()).days(number)):
        text = str(fields["text"])
        items.append(
            Item(
                id=str(fields["ref"]),
                text=text,
                title=str(fields["title"]) if "title" in fields else None,
                speaker=str(fields["speaker"]) if "speaker" in fields else None,
                tier="conversation" if "session" in fields else "knowledge",
                at=datetime.fromisoformat(str(fields["at"])),
                thread=fields.get("session"),
                value=rng.random() ** 8 * 0.9 + 0.0001 / (1 + place),
                tokens=COUNTER.count(text),
            )
        )
    return sorted(items, key=lambda item: -item.value)


def measured(items: Sequence[Item], format: str, policy: PolicyName, budget: int, rounds: int) -> Sequence[str]:
    def block() -> object:
        return fitted_block(items, budget=budget, counter=COUNTER, layout=LAYOUTS[format], policy=policy)

    packed = fitted_block(items, budget=budget, counter=COUNTER, layout=LAYOUTS[format], policy=policy)
    started = time.perf_counter()
    entries = len(packed.receipt.entries)
    receipt = time.perf_counter() - started
    assert entries == len(items)
    # Alternating, so that a noisy machine slows both.
    spent, counting = [], []
    for _ in range(rounds):
        spent.append(_timed(block))
        counting.append(_timed(lambda: COUNTER.count(packed.text)))
    milliseconds, once = statistics.median(spent), statistics.median(counting)
    numbers = (f"{packed.included}", f"{packed.token_count:,}", f"{milliseconds:.2f}")
    return (f"{len(items):,}", format, policy, *numbers, f"{milliseconds / once:.1f}", f"{1000 * receipt:.0f}")


def _timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - started)


if __name__ == "__main__":
    sys.exit(main())
