"""The main job in a minute: save memories, find them, fit them to a token budget.

Every command is the real one, on a store in a folder that is removed at the end.
"""

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

SATCHEL = Path(sys.executable).with_name("satchel")
SAMPLE = Path(__file__).with_name("memories.jsonl")
QUESTION = "How do we rotate tokens and keys?"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"SATCHEL_DB": str(Path(folder, "demo.db"))}

        def satchel(*words: str, stdin: str | None = None, shown: str = "") -> str:
            print(f"\n$ satchel {shown or shlex.join(words)}", flush=True)
            done = subprocess.run(
                [SATCHEL, *words], env=environment, input=stdin, stdout=subprocess.PIPE, text=True, check=True
            )
            print(done.stdout, end="", flush=True)
            return done.stdout

        print("A project's memories, from a file, and one more:")
        satchel("import", str(SAMPLE), shown="import examples/memories.jsonl")
        satchel("add", "Refresh tokens are now bound to the device.", "--kind", "decision", "--project", "harbor")

        print("\nWhat matters for a question, in at most 300 tokens:")
        found = satchel("search", QUESTION, "--project", "harbor", "--token-budget", "300")

        print("\nThe budget holds for what was printed, counted once more:")
        satchel("tokens", stdin=found, shown=f"search {shlex.quote(QUESTION)} … | satchel tokens")

        print("\nWhat is worth most for its tokens, as one text for a system prompt:")
        satchel("context", QUESTION, "--project", "harbor", "--tokens", "200")

        print("\nThe decisions of the project, to paste into any service:")
        satchel("context-pack", "--project", "harbor", "--kind", "decision", "--tokens", "160")

        print("\nSecrets are masked before anything is stored, and any script is searched:")
        satchel("search", "staging database", "--limit", "1")
        satchel("search", "記憶", "--limit", "1")

        print("\nThe state of the store:")
        satchel("doctor")


if __name__ == "__main__":
    main()
