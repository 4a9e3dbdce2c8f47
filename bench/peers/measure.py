"""The measures: building and asking a store, cold starts, evidence within a budget, notes."""

import contextlib
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import satchel
from bench import notes
from bench.evidence import Conversation, evidence_recall, sentences
from bench.floors import Found, skip_and_go_on
from bench.peers.client import Answer, Peer, Worker, WorkerError, bare_start
from bench.peers.work import Collection, Synthetic
from bench.scale import Spent, Timing, timing_of
from satchel.embed.minilm import MINILM

__all__ = [
    "BUDGETS",
    "CONTEXT",
    "FILLED",
    "HITS",
    "OURS",
    "Failures",
    "Speed",
    "embedding_times",
    "evidence",
    "notes_records",
    "packed_by_skip",
    "speed",
]

T = TypeVar("T")
Failures = dict[str, str]

OURS = "satchel"
FILLED = "satchel, min_relevance 0"
BUDGET = 2000
CONTEXT = f"satchel, context of {BUDGET:,} tokens"
BUDGETS = (500, 1000, 2000, 4000)
# How many hits of a search are packed, and how many are shown.
HITS = 200
FIRST = 10
# Adding one memory after the other stops after this long.
ADDING_SECONDS = 15.0

count = satchel.counter("o200k_base").count


class Built(NamedTuple):
    """What building a store took."""

    seconds: float
    cpu: float
    peak: int
    disk: int


class Speed(NamedTuple):
    """What was measured over a store of one size; times are in milliseconds."""

    built: Built
    added: Timing
    searched: Timing
    peak: int
    start: float
    bare: float

    @property
    def multiple(self) -> float:
        """The cold start, as a multiple of an interpreter that does nothing."""
        return self.start / self.bare


class Kept(NamedTuple):
    """The share of the evidence for one question in a text, and the tokens of the text."""

    recall: float
    tokens: int


def speed(
    peers: Sequence[Peer], work: Synthetic, table: Path, folder: Path, *, starts: int, failures: Failures
) -> dict[str, Speed]:
    """Build a store with every system, and ask all of them the same questions in turn."""
    built = dict(_each(peers, lambda peer: _build(peer, work, folder / peer.name, table), failures))
    going = [peer for peer in peers if peer.name in built]
    question = work.asked[0].text
    cold: dict[str, list[tuple[float, float]]] = {peer.name: [] for peer in going}
    for turn in range(starts + 1):
        _tell(f"cold start {turn} of {starts}")
        for name, times in _each(
            going, lambda peer: _cold_start(peer, folder / peer.name, table, question), failures
        ):
            # The first one only fills caches.
            cold[name] += [times] if turn else []
    measured = {}
    for name, (timing, peak, added) in _ask_in_turn(going, work, table, folder, failures).items():
        peer_name = OURS if name == CONTEXT else name
        start, bare = (1000 * statistics.median(each) for each in zip(*cold[peer_name], strict=True))
        measured[name] = Speed(built[peer_name], added, timing, peak, start, bare)
    return measured


def _each(peers: Sequence[Peer], run: Callable[[Peer], T], failures: Failures) -> Iterator[tuple[str, T]]:
    """Yield what each system gives. One that fails is noted, and is not asked again."""
    for peer in peers:
        if peer.name in failures:
            continue
        try:
            yield peer.name, run(peer)
        except WorkerError as error:
            _tell(f"{peer.name}: failed: {error}")
            failures[peer.name] = f"failed: {error}"


def _build(peer: Peer, work: Synthetic, folder: Path, table: Path) -> Built:
    _tell(f"{peer.name}: {len(work.built):,} memories")
    with Worker(peer, folder, table) as worker:
        worker.call("open")
        done = worker.call("ingest", memories=work.built)
        peak = worker.call("peak").result
        worker.call("close")
    return Built(done.seconds, done.cpu, peak, _size_of(folder))


def _size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _cold_start(peer: Peer, folder: Path, table: Path, question: str) -> tuple[float, float]:
    """Return the seconds from the start of a process to the first answer, and those of one that does nothing."""
    bare = bare_start(peer.python)
    with Worker(peer, folder, table) as worker:
        worker.call("open")
        worker.call("search", query=question, limit=FIRST)
        return time.perf_counter() - worker.started, bare


def _ask_in_turn(
    peers: Sequence[Peer], work: Synthetic, table: Path, folder: Path, failures: Failures
) -> dict[str, tuple[Timing, int, Timing]]:
    """Return the timing of the questions, the peak memory, and the timing of adding, of every system."""
    asking: dict[str, tuple[Peer, dict[str, Any]]] = {}
    for peer in peers:
        asking[peer.name] = peer, {"name": "search", "limit": FIRST}
        if peer.name == OURS:
            # In a process of its own, so that neither profits from what the other has read.
            asking[CONTEXT] = peer, {"name": "context", "budget": BUDGET}
    spent: dict[str, list[Spent]] = {name: [] for name in asking}
    found: dict[str, list[bool]] = {name: [] for name in asking}
    with contextlib.ExitStack() as stack:
        workers = {
            name: stack.enter_context(Worker(peer, folder / peer.name, table))
            for name, (peer, _) in asking.items()
            if peer.name not in failures
        }
        rows = [Peer(name, asking[name][0].python) for name in workers]
        dict(_each(rows, lambda row: workers[row.name].call("open"), failures))
        for number, question in enumerate((*work.warming, *work.asked)):
            turned = itertools.islice(itertools.cycle(rows), number, number + len(rows))

            def ask(row: Peer, text: str = question.text) -> Answer:
                return workers[row.name].call(query=text, **asking[row.name][1])

            for name, answer in _each(list(turned), ask, failures):
                if number >= len(work.warming):
                    spent[name].append(Spent(answer.seconds, answer.cpu))
                    found[name].append(question.ref in _ids(answer.result))
        peaks = dict(_each(rows, lambda row: workers[row.name].call("peak").result, failures))
        adding = [row for row in rows if row.name != CONTEXT]
        added = dict(_each(adding, lambda row: _add(workers[row.name], work.added), failures))
        dict(_each(rows, lambda row: workers[row.name].call("close"), failures))
    timings = {name: timing_of(spent[name], statistics.fmean(found[name])) for name in peaks}
    added |= {CONTEXT: added[OURS]} if CONTEXT in peaks and OURS in added else {}
    return {name: (timings[name], peaks[name], added[name]) for name in peaks if name in added}


def _ids(result: Sequence[Any]) -> list[str]:
    return [each if isinstance(each, str) else each[0] for each in result]


def _add(worker: Worker, memories: Sequence[Any]) -> Timing:
    spent: list[Spent] = []
    until = time.perf_counter() + ADDING_SECONDS
    worker.call("add", memory=memories[0])
    for memory in memories[1:]:
        answer = worker.call("add", memory=memory)
        spent.append(Spent(answer.seconds, answer.cpu))
        if time.perf_counter() > until:
            break
    return timing_of(spent, None)


def packed_by_skip(hits: Sequence[tuple[str, float]], lines: dict[str, str], budget: int) -> str:
    """Return the lines of the hits, best first, skipping those that do not fit into the budget."""
    found = [Found(place, score, count(lines[name])) for place, (name, score) in enumerate(hits)]
    return "".join(lines[hits[place][0]] for place in skip_and_go_on(found, budget))


class Asking:
    """A worker with the memories of one collection, and the texts and hits that it returns for a question."""

    def __init__(self, worker: Worker, name: str, collection: Collection) -> None:
        self._worker = worker
        self._name = name
        self._lines = collection.lines
        worker.call("open")
        worker.call("ingest", memories=collection.memories)

    def ask(self, query: str, budgets: Sequence[int], *, as_of: str | None = None) -> dict[str, "Given"]:
        """Return the answer in each row of the system: Satchel has two, by `min_relevance`."""
        if self._name != OURS:
            hits = self._worker.call("search", query=query, limit=HITS).result
            return {self._name: Given([packed_by_skip(hits, self._lines, each) for each in budgets], hits[:FIRST])}
        given = {}
        for row, least in ((OURS, None), (FILLED, 0)):
            asked = {"query": query, "budgets": budgets, "limit": FIRST, "min_relevance": least, "as_of": as_of}
            given[row] = Given(**self._worker.call("ranked", **asked).result)
        return given


class Given(NamedTuple):
    """The text for each budget, and the ids and scores of the first hits."""

    texts: Sequence[str]
    hits: Sequence[tuple[str, float]]


def evidence(
    peers: Sequence[Peer],
    conversations: Sequence[tuple[Conversation, Collection]],
    table: Path,
    folder: Path,
    failures: Failures,
) -> dict[str, dict[int, list[Kept]]]:
    """Return the evidence that each row keeps within each budget, question by question."""

    def run(peer: Peer) -> dict[str, dict[int, list[Kept]]]:
        kept: dict[str, dict[int, list[Kept]]] = {}
        for conversation, collection in conversations:
            _tell(f"{peer.name}: {conversation.id}, {len(conversation.questions)} questions")
            pieces = {turn.id: sentences(turn.text) for turn in conversation.turns}
            with Worker(peer, folder / peer.name / conversation.id, table) as worker:
                asking = Asking(worker, peer.name, collection)
                for question in conversation.questions:
                    wanted = [pieces[each] for each in question.evidence]
                    for row, given in asking.ask(question.text, BUDGETS).items():
                        for budget, text in zip(BUDGETS, given.texts, strict=True):
                            here = kept.setdefault(row, {each: [] for each in BUDGETS})[budget]
                            here.append(Kept(evidence_recall(wanted, text), count(text)))
                worker.call("close")
        return kept

    return {row: kept for _, rows in _each(peers, run, failures) for row, kept in rows.items()}


def notes_records(
    peers: Sequence[Peer],
    projects: Sequence[tuple[notes.Project, Collection]],
    table: Path,
    folder: Path,
    failures: Failures,
) -> dict[str, list[notes.Record]]:
    """Return the records of bench.notes for each row, with the budget of that benchmark."""

    def run(peer: Peer) -> dict[str, list[notes.Record]]:
        records: dict[str, list[notes.Record]] = {}
        for project, collection in projects:
            _tell(f"{peer.name}: {project.id}, {len(project.questions)} questions")
            with Worker(peer, folder / peer.name / project.id, table) as worker:
                asking = Asking(worker, peer.name, collection)
                answers = {
                    each.question: asking.ask(each.question, [notes.BUDGET], as_of=project.now)
                    for each in project.questions
                }
                worker.call("close")
            for row in (OURS, FILLED) if peer.name == OURS else (peer.name,):

                def answer(question: str, row: str = row, answers: Any = answers) -> notes.Answer:
                    given = answers[question][row]
                    return notes.Answer(given.texts[0], [(name, score) for name, score in given.hits])

                records.setdefault(row, []).extend(notes.judged(row, project, None, answer))
        return records

    return {row: found for _, rows in _each(peers, run, failures) for row, found in rows.items()}


def embedding_times(questions: Sequence[str], texts: Sequence[str]) -> tuple[float, float]:
    """Return what the encoder takes for one question, and for one of many memories, in milliseconds."""
    MINILM.embed(questions[:1])
    times = []
    for question in questions:
        started = time.perf_counter()
        MINILM.embed([question])
        times.append(time.perf_counter() - started)
    started = time.perf_counter()
    MINILM.embed(texts)
    return 1000 * statistics.median(times), 1000 * (time.perf_counter() - started) / len(texts)


def _tell(progress: str) -> None:
    print(f"  {progress}", file=sys.stderr, flush=True)
