"""A process that writes to a store as it is told, a line of JSON each, and answers when the write is done.

python other_process.py FILE
"""

import json
import sys
from typing import Any

import satchel


def main(path: str) -> None:
    with satchel.open(path, embedder="static") as bag:
        for line in sys.stdin:
            name, given = json.loads(line)
            print(json.dumps(perform(bag, name, given)), flush=True)


def perform(bag: satchel.Satchel, name: str, given: dict[str, Any]) -> Any:
    """Perform one write, and return what identifies its result."""
    if name == "add":
        return bag.add(**given).id
    if name == "add_many":
        return [each.id for each in bag.add_many([satchel.Draft(**each) for each in given["drafts"]])]
    if name == "update":
        return bag.update(given.pop("id"), **given).id
    if name == "forget":
        return bag.forget(given["ids"], purge=given["purge"]).count
    if name == "unforget":
        return bag.unforget(given["ids"])
    if name == "relate":
        return bag.relate(given["source"], given["target"], "supersedes").kind
    if name == "use":
        return len([bag.get(each) for each in given["ids"]])
    if name == "begin":
        # Never committed: whoever asked for it kills this process.
        with bag.transaction():
            bag.add_many([satchel.Draft(**each) for each in given["drafts"]])
            print(json.dumps("begun"), flush=True)
            sys.stdin.readline()
    raise ValueError(name)


if __name__ == "__main__":
    main(sys.argv[1])
