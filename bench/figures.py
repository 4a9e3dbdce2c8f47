"""Compute every recall figure that README.md and docs/ quote, in one run.

python -m bench.figures --data DIR [--only NAME,NAME…] [--embedder NAME]

DIR contains the files named below; missing files are reported and skipped. `left-out` measures notes with weights
that were not fitted on their project; for conversations, `python -m bench.fit` does that in half an hour.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from bench import fit, notes, recall

__all__ = ["FIGURES", "main"]


class Figures(NamedTuple):
    """A benchmark, and the files of the data folder that it uses."""

    run: Callable[[Sequence[str]], int]
    pattern: str


FIGURES = {
    "notes": Figures(notes.main, "notes/*.json"),
    "left-out": Figures(fit.main, "notes/*.json"),
    "locomo": Figures(recall.main, "locomo_dev.jsonl"),
    "beam": Figures(recall.main, "beam100k_dev.jsonl"),
    "realmem": Figures(recall.main, "realmem_dev.jsonl"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    parser.add_argument("--only", type=_names, default=list(FIGURES), metavar="NAME,NAME…", help=", ".join(FIGURES))
    parser.add_argument("--embedder", metavar="NAME", help="for satchel.open; its default if not given")
    options = parser.parse_args(arguments)
    more = ["--embedder", options.embedder] if options.embedder else []
    codes = []
    for name in options.only:
        figures = FIGURES[name]
        files = sorted(map(str, options.data.glob(figures.pattern)))
        if not files:
            print(f"bench.figures: {options.data / figures.pattern}: missing, left out", file=sys.stderr)
            continue
        codes.append(figures.run(["--data", *files, *more]))
    # If nothing was found at all, the folder is most likely wrong: report an error.
    return max(codes, default=2)


def _names(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in FIGURES]:
        raise argparse.ArgumentTypeError(f"unknown {unknown[0]!r}; known: {', '.join(FIGURES)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
