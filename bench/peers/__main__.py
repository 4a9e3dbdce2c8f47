"""Satchel next to mem0, txtai, chromadb, LlamaIndex, and plain FTS5 with sqlite-vec: same work, same vectors.

python -m bench.peers [--systems satchel,fts5] [--themes speed,recall,notes] [--memories 1k,10k] [--data DIR]
                      [--queries 50] [--envs DIR] [--json FILE] [--markdown FILE]

Each system runs in a process of its own and, except satchel and fts5, in an environment of its own. It is made when
it is first needed, from the pinned versions in bench/peers/SYSTEM.txt, and kept in --envs.

Nobody embeds: all vectors are made beforehand by Satchel's encoder (all-MiniLM-L6-v2), and every system gets them
through its own interface for embedders. The times are those of the systems themselves. What one embedding costs is
printed once; it is the same for all.

  speed   the synthetic memories of bench.scale: bulk ingestion, adding one memory, disk, peak memory of a process,
          search (`found`: the right memory is among 10 hits), and a cold start: from the start of a process to its
          first answer over the store, also as a multiple of `python -c pass` in the same environment
  recall  evidence recall within 500 to 4,000 tokens, as in bench.recall, on DIR/locomo_dev.jsonl and
          DIR/beam100k_dev.jsonl. Satchel packs its own context. For the others, up to 200 hits are packed best
          first, skipping those that do not fit. Each conversation is a store of its own.
  notes   the measures of bench.notes, on bench/projects and DIR/notes, packed in the same way
"""

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import notes
from bench.corpus import Corpus, vocabulary
from bench.evidence import read_conversations
from bench.peers import measure, report
from bench.peers.client import Peer, Worker, WorkerError
from bench.peers.environments import ROOT, NotInstalledError, interpreter
from bench.peers.vectors import VectorCache
from bench.peers.work import conversation_work, notes_work, synthetic_work, table_for
from bench.scale import parsed_sizes
from bench.table import print_table
from satchel.embed.minilm import MINILM

__all__ = ["command_of", "main", "parsed_options"]

SYSTEMS = ("satchel", "fts5", "mem0", "txtai", "chromadb", "llamaindex")
THEMES = ("speed", "recall", "notes")
CONVERSATIONS = {"LoCoMo": "locomo_dev.jsonl", "BEAM-100K": "beam100k_dev.jsonl"}
PROJECTS = Path(notes.__file__).parent / "projects"


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        options = parsed_options(arguments)
        run = Run(options)
        run.measure()
    except ValueError as error:
        print(f"bench.peers: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"bench.peers: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    run.write()
    return 1 if run.failures else 0


def parsed_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line. A value that makes no sense is a ValueError."""
    parser = argparse.ArgumentParser(
        prog="bench.peers", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--systems", default=",".join(SYSTEMS), metavar="NAME,NAME…")
    parser.add_argument("--themes", default=",".join(THEMES), metavar="NAME,NAME…")
    parser.add_argument("--memories", default="1k,10k", metavar="N,N…", help="sizes of the stores of speed")
    parser.add_argument("--queries", type=int, default=50, metavar="N")
    parser.add_argument("--adds", type=int, default=20, metavar="N", help="how many memories are added one by one")
    parser.add_argument("--starts", type=int, default=5, metavar="N", help="how many cold starts are measured")
    parser.add_argument("--data", type=Path, metavar="DIR", help="where conversations and more notes are")
    parser.add_argument("--envs", type=Path, default=ROOT / ".peers", metavar="DIR", help="default: .peers")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables in Markdown")
    options = parser.parse_args(arguments)
    options.systems = _names("--systems", options.systems, SYSTEMS)
    options.themes = _names("--themes", options.themes, THEMES)
    options.memories = parsed_sizes(options.memories, option="--memories")
    for name in ("queries", "adds", "starts"):
        if getattr(options, name) < 1:
            raise ValueError(f"--{name} {getattr(options, name)}: at least 1 is needed")
    if options.data is not None and not options.data.is_dir():
        raise ValueError(f"--data {options.data}: not a folder")
    return options


def _names(option: str, text: str, known: Sequence[str]) -> list[str]:
    names = list(dict.fromkeys(each.strip() for each in text.split(",")))
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"{option} {text}: unknown {unknown[0]!r}; known: {', '.join(known)}")
    return names


class Run:
    """One run of the benchmark: its tables are printed as they are measured, and kept."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self.failures: measure.Failures = {}
        self._remarks: list[str] = []
        self._tables: list[report.Table] = []
        self._figures: dict[str, Any] = {}
        for path in (options.json, options.markdown):
            if path is not None:
                # Check before an hour of measuring, not after.
                path.touch()
        self._cache = VectorCache(options.envs / "vectors", MINILM.embed)

    def measure(self) -> None:
        with tempfile.TemporaryDirectory(dir=self._options.envs) as folder:
            self._folder = Path(folder)
            about = self._prepare()
            for theme in self._options.themes:
                getattr(self, f"_{theme}")()
        self._tables.insert(0, report.systems_table(about, self.failures))
        print_table(*self._tables[0])

    def _prepare(self) -> dict[str, dict[str, Any]]:
        """Make the environments, and return what each system says about itself."""
        about = {}
        self._peers: list[Peer] = []
        table = table_for(self._cache, self._folder / "about", [], [])
        for name in self._options.systems:
            about[name] = {"versions": report.MISSING, "setup": ""}
            try:
                peer = Peer(name, interpreter(name, self._options.envs))
                with Worker(peer, self._folder / "about" / name, table) as worker:
                    worker.call("open")
                    about[name] = worker.call("about").result
                    worker.call("close")
                self._peers.append(peer)
            except (NotInstalledError, WorkerError) as error:
                self.failures[name] = f"not installed: {error}"
                print(f"bench.peers: {name}: {self.failures[name]}", file=sys.stderr)
        return about

    def _speed(self) -> None:
        corpus = Corpus(words=vocabulary())
        for size in self._options.memories:
            work = synthetic_work(corpus, size, queries=self._options.queries, adds=self._options.adds)
            memories, questions = [*work.built, *work.added], [*work.warming, *work.asked]
            with self._scratch() as folder:
                table = table_for(self._cache, folder / "table", memories, [each.text for each in questions])
                measured = measure.speed(
                    self._peers, work, table, folder, starts=self._options.starts, failures=self.failures
                )
            tables = report.speed_tables(size, len(work.asked), measured, self._options.systems)
            self._show(tables, {f"speed {size}": {name: each._asdict() for name, each in measured.items()}})
        one, many = measure.embedding_times(
            [each.text for each in work.asked], [each.searched for each in work.built[:200]]
        )
        remark = (
            f"Embedding, which no time above includes and which is the same for all: {one:.1f} ms for a question, "
            f"{many:.1f} ms for a memory of many."
        )
        self._remark(remark)

    def _recall(self) -> None:
        if self._options.data is None:
            files = " and ".join(CONVERSATIONS.values())
            self._remark(f"No evidence recall on conversations: give --data DIR, a folder with {files}.")
            return
        for label, name in CONVERSATIONS.items():
            path = self._options.data / name
            if not path.exists():
                self._remark(f"No evidence recall on {label}: {name} is not in the folder of --data.")
                continue
            work = [(each, conversation_work(each)) for each in _conversations(path)]
            questions = [question.text for each, _ in work for question in each.questions]
            with self._scratch() as folder:
                memories = [memory for _, collection in work for memory in collection.memories]
                table = table_for(self._cache, folder / "table", memories, questions)
                kept = measure.evidence(self._peers, work, table, folder, self.failures)
            title = f"evidence recall on {label}, %: {len(work)} conversations, {len(questions):,} questions"
            self._show([report.evidence_table(title, kept, self._options.systems)], {f"recall {label}": kept})

    def _notes(self) -> None:
        folders = {"bench/projects": PROJECTS}
        if self._options.data is not None and (self._options.data / "notes").is_dir():
            folders["the data folder"] = self._options.data / "notes"
        for label, source in folders.items():
            work = [(each, notes_work(each)) for each in map(notes.read_project, sorted(source.glob("*.json")))]
            questions = [question.question for each, _ in work for question in each.questions]
            with self._scratch() as folder:
                memories = [memory for _, collection in work for memory in collection.memories]
                table = table_for(self._cache, folder / "table", memories, questions)
                records = measure.notes_records(self._peers, work, table, folder, self.failures)
            title = f"notes of {label}: {len(work)} projects, {len(questions):,} questions"
            figures = {row: notes.summary(found) for row, found in records.items()}
            self._show([report.notes_table(title, records, self._options.systems)], {f"notes {label}": figures})

    @contextlib.contextmanager
    def _scratch(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            yield Path(folder)

    def _show(self, tables: Sequence[report.Table], figures: dict[str, Any]) -> None:
        for table in tables:
            print_table(*table)
        sys.stdout.flush()
        self._tables += tables
        self._figures |= figures

    def _remark(self, text: str) -> None:
        print(f"\n  {text}", flush=True)
        self._remarks.append(text)

    def write(self) -> None:
        """Write the files that were asked for."""
        day, command = time.strftime("%Y-%m-%d"), command_of(self._options)
        if self._options.json is not None:
            figures = {"command": command, "date": day, "failures": self.failures, **self._figures}
            self._options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        if self._options.markdown is not None:
            text = report.markdown(self._tables, [f"Measured on {day} with `{command}`.", *self._remarks])
            self._options.markdown.write_text(text, encoding="utf-8")


def command_of(options: argparse.Namespace) -> str:
    """Return the command that measures the same elsewhere: what differs from the defaults, without paths."""
    defaults = parsed_options([])
    words = ["python -m bench.peers"]
    for name in ("systems", "themes", "memories", "queries", "adds", "starts"):
        value = getattr(options, name)
        if value != getattr(defaults, name):
            words.append(f"--{name} {','.join(map(str, value)) if isinstance(value, list) else value}")
    return " ".join([*words, *(["--data DIR"] if options.data is not None else [])])


def _conversations(path: Path) -> list[Any]:
    try:
        return read_conversations(path)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not a file of conversations: {error!r}") from error


if __name__ == "__main__":
    sys.exit(main())
