"""Store memories until killed, and print each id only after it is stored: writer.py STORE NAME."""

import contextlib
import random
import sys
from collections.abc import Callable
from pathlib import Path

# Run by its path, it finds what several suites share one folder up.
sys.path.append(str(Path(__file__).parent.parent))

import satchel
from in_step import Letters


def write_for_ever(store: str, who: str, say: Callable[[str], object]) -> None:
    with satchel.open(store) as bag:
        number = 0
        while True:
            match number % 4:
                case 0 | 1:
                    memory = bag.add(f"writer {who} note {number} about rotating keys 記憶", tags=["t", who])
                case 2:
                    memory = bag.add(f"writer {who} topic {number}", topic_key=f"topic-{who}-{number % 20}")
                case _:
                    memory = bag.update(memory.id, text=f"writer {who} changed {number}", importance=0.9)
            say(f"{memory.id} {memory.revision}\n")
            number += 1


def deliver_for_ever(store: str, who: str, say: Callable[[str], object]) -> None:
    """Results of one session that several processes share, some too large for a page."""
    with satchel.open(store) as bag:
        session = bag.session("shared", budget=satchel.Budget(total=20_000))
        number = 0
        while True:
            session.call("read_file", {"path": f"{number}.py"}, f"{who}-{number}")
            shown = session.result("read_file", delivered(who, number), call_id=f"{who}-{number}")
            say(f"{shown.handle} {who} {number}\n")
            number += 1


def delivered(who: str, number: int) -> str:
    return f"{who} {number}\n" * (1 + number * 397 % 5_000)


def churn_for_ever(store: str, who: str, say: Callable[[str], object]) -> None:
    """All that changes passages and vectors, in any order."""
    chance = random.Random(who)
    with satchel.open(store) as bag:
        while True:
            # Another process may have purged what is about to be changed, or reembed with another embedder.
            with contextlib.suppress(satchel.UnknownIdError, satchel.StoreError):
                churn(bag, chance)
            say("done\n")


def churn(bag: satchel.Satchel, chance: random.Random) -> None:
    text = f"a note {chance.random()} " * chance.choice((1, 1, 1, 200))
    known = [memory.id for memory in bag.recent(limit=20)]
    match chance.randrange(6 if known else 1):
        case 0 | 1:
            bag.add(text, title=chance.choice((None, "a title")))
        case 2:
            bag.update(chance.choice(known), text=text)
        case 3:
            bag.forget(chance.choice(known), purge=True)
        case 4:
            bag.import_([f'{{"text": "{text}"}}\n'.encode()] * 3)
        case _:
            bag.reembed(chance.choice((Letters(), "static", "static", "none")))


if __name__ == "__main__":

    def say(line: str) -> None:
        sys.stdout.write(line)
        sys.stdout.flush()

    write_for_ever(sys.argv[1], sys.argv[2], say)
