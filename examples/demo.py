"""A one-minute demo: save memories, find them, fit them to a token budget.

Every command is real and uses a store in a temporary folder.
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

        print("Import a project's memories from a file, and add one:")
        satchel("import", str(SAMPLE), shown="import examples/memories.jsonl")
        satchel("add", "Refresh tokens are now bound to the device.", "--kind", "decision", "--project", "harbor")

        print("\nSearch within 300 tokens:")
        found = satchel("search", QUESTION, "--project", "harbor", "--token-budget", "300")

        print("\nCount the printed text to check the budget:")
        satchel("tokens", stdin=found, shown=f"search {shlex.quote(QUESTION)} … | satchel tokens")

        print("\nBuild a context for a system prompt within 200 tokens:")
        satchel("context", QUESTION, "--project", "harbor", "--tokens", "200")

        print("\nMake a context pack of the project's decisions, to paste into any AI service:")
        satchel("context-pack", "--project", "harbor", "--kind", "decision", "--tokens", "160")

        print("\nSecrets are masked before storing, and search works in any script:")
        satchel("search", "staging database", "--limit", "1")
        satchel("search", "記憶", "--limit", "1")

        print("\nRun health checks on the store:")
        satchel("doctor")


if __name__ == "__main__":
    main()
