"""Stores memories until it is killed, and says each id only once it is stored: writer.py STORE NAME."""

import sys
from collections.abc import Callable

import satchel


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


if __name__ == "__main__":

    def say(line: str) -> None:
        sys.stdout.write(line)
        sys.stdout.flush()

    write_for_ever(sys.argv[1], sys.argv[2], say)
