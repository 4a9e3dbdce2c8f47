"""Simulation: what a recorded session would have cost under several eviction policies with a prompt cache."""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from reprlib import repr as shortened
from typing import NamedTuple, Protocol

import msgspec

from satchel.cli.transcripts import Transcript, TranscriptEntry
from satchel.errors import InputError
from satchel.session.ledger import LOW, Unit, keys_to_evict
from satchel.text.tokens import Counter

__all__ = [
    "IMAGE_TOKENS",
    "KeepAll",
    "KeepLast",
    "OldestUntilItFits",
    "Part",
    "Policy",
    "Prices",
    "SimulatedCost",
    "Step",
    "Trace",
    "Watermarks",
    "assumptions",
    "remarks",
    "replay",
    "synthetic_trace",
    "trace_of",
]


IMAGE_TOKENS = 1_500
"""The tokens counted for an image or other attachment, whatever its size."""


class Part(NamedTuple):
    """The tokens of one entry of a prompt."""

    unit: int
    """Parts of the same unit are evicted together."""
    tokens: int
    standing: bool = False
    """Whether it is part of the system prompt, which is never evicted."""


class Step(NamedTuple):
    """A turn: what is new in its prompt, including the previous answer, and its own answer."""

    parts: tuple[Part, ...]
    output: int
    at: datetime | None = None


class Trace(NamedTuple):
    """The turns of a session as token counts."""

    steps: tuple[Step, ...]
    unseen: int = 0
    """The tokens of the system prompt and tool schemas, taken from the usage of the first request."""

    @property
    def timed(self) -> bool:
        return all(step.at is not None for step in self.steps)


def trace_of(transcript: Transcript, counter: Counter) -> Trace:
    """Count each entry of a transcript once.

    Claude Code does not record the system prompt. Its tokens, with those of the tool schemas, are what the provider
    counted in the first prompt beyond the recorded entries.
    """
    tokens = _counted(transcript.entries, counter)
    units = _units(transcript.entries)
    prompts: list[list[Part]] = [[] for _ in range(transcript.turns + 1)]
    outputs = [0] * transcript.turns
    standing = False
    for entry, count, unit in zip(transcript.entries, tokens, units, strict=True):
        answered = entry.role == "assistant"
        if answered:
            outputs[entry.turn] += count
        standing = standing or entry.role == "system"
        prompts[entry.turn + answered].append(Part(unit, count, entry.role == "system"))
    unseen = 0
    if transcript.first_prompt is not None and not standing:
        unseen = max(0, transcript.first_prompt - sum(part.tokens for part in prompts[0]))
    if unseen:
        prompts[0].insert(0, Part(-1, unseen, standing=True))
    steps = [
        Step(tuple(parts), output, at)
        for parts, output, at in zip(prompts, outputs, transcript.times, strict=False)
    ]
    return Trace(tuple(steps), unseen)


def _counted(entries: Sequence[TranscriptEntry], counter: Counter) -> list[int]:
    counts = counter.count_many(entry.text for entry in entries)
    return [count + entry.images * IMAGE_TOKENS for count, entry in zip(counts, entries, strict=True)]


def _units(entries: Sequence[TranscriptEntry]) -> list[int]:
    """Return the unit of each entry; a tool call and its result share one."""
    called: dict[str, int] = {}
    return [
        place if entry.call_id is None else called.setdefault(entry.call_id, place)
        for place, entry in enumerate(entries)
    ]


# Prices, relative to one uncached input token


BASE = 1.0


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """Prices of tokens. With `cache_minutes=0` there is no cache, and each token of a prompt costs 1."""

    read: float = 0.1
    write: float = 1.25
    output: float = 5.0
    cache_minutes: float | None = None
    """How long a prompt stays in the cache after its last use; None means it never expires."""

    def __post_init__(self) -> None:
        for name, value in (
            ("read price", self.read),
            ("write price", self.write),
            ("output price", self.output),
            ("cache minutes", self.cache_minutes),
        ):
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise InputError(f"{name} {shortened(value)} is not a price or time; give a number from 0 upwards")

    @property
    def caching(self) -> bool:
        return self.cache_minutes != 0

    def cost(self, *, read: int, written: int, output: int) -> float:
        write = self.write if self.caching else BASE
        return read * self.read + written * write + output * self.output


# Eviction policies: which units are removed from a prompt before it is sent


STUB_TOKENS = 20
"""About the tokens of a handle, a line and a size."""

_STANDING = -1


class Policy(Protocol):
    """Decides which units are evicted."""

    @property
    def name(self) -> str: ...

    @property
    def stub(self) -> int:
        """The tokens of the stub that replaces an evicted unit."""
        ...

    @property
    def limit(self) -> int | None:
        """The tokens that a prompt should not exceed."""
        ...

    def leaving(self, units: Mapping[int, Unit], *, standing: int, total: int, turn: int) -> Sequence[int]:
        """Return the keys of the units to evict; `standing` are the tokens that cannot be evicted."""
        ...


class KeepAll(NamedTuple):
    name: str = "keep all"
    stub: int = 0
    limit: int | None = None

    def leaving(self, units: Mapping[int, Unit], *, standing: int, total: int, turn: int) -> Sequence[int]:
        return ()


class KeepLast(NamedTuple):
    """Keep what the last turns added, and nothing else."""

    turns: int
    stub: int = 0
    limit: int | None = None

    @property
    def name(self) -> str:
        return f"keep the last {self.turns:,} turns" if self.turns > 1 else "keep the last turn"

    def leaving(self, units: Mapping[int, Unit], *, standing: int, total: int, turn: int) -> Sequence[int]:
        gone = []
        # Least recently used first.
        for unit in units.values():
            if unit.used > turn - self.turns:
                break
            gone.append(unit.key)
        return gone


class Watermarks(NamedTuple):
    """When a prompt exceeds the limit, evict down to a share of it."""

    limit: int
    low: float = LOW
    stub: int = STUB_TOKENS

    @property
    def name(self) -> str:
        return f"watermarks, down to {self.low:.4g}"

    def leaving(self, units: Mapping[int, Unit], *, standing: int, total: int, turn: int) -> Sequence[int]:
        return _over(units, standing, total, turn, limit=self.limit, low=self.low)


class OldestUntilItFits(NamedTuple):
    """When a prompt exceeds the limit, evict as little as possible."""

    limit: int
    stub: int = 0
    name: str = "oldest until it fits"

    def leaving(self, units: Mapping[int, Unit], *, standing: int, total: int, turn: int) -> Sequence[int]:
        return _over(units, standing, total, turn, limit=self.limit, low=1.0)


def _over(
    units: Mapping[int, Unit], standing: int, total: int, turn: int, *, limit: int, low: float
) -> Sequence[int]:
    if total <= limit:
        return ()
    # The model has not read yet what is new in this turn.
    there = [unit._replace(kept=True) if unit.used == turn else unit for unit in units.values()]
    return keys_to_evict([Unit(_STANDING, standing, 0, -1, True), *there], limit=limit, low=low)


# Replaying a trace under a policy, request by request, with the costs of a prompt cache


class SimulatedCost(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of a replay, in tokens, except the cost."""

    policy: str
    sent: int
    peak: int
    read: int
    """Tokens read from the cache."""
    written: int
    output: int
    evictions: int
    """How many turns evicted something."""
    evicted: int
    """How many units were evicted."""
    over_limit: int
    """How many prompts exceeded the policy's limit even after eviction."""
    cost: float
    """Relative to one uncached input token."""


def replay(trace: Trace, policy: Policy, prices: Prices) -> SimulatedCost:
    """Replay all requests and sum up; the cache holds the unchanged beginning of the previous prompt."""
    if prices.caching and prices.cache_minutes is not None and not trace.timed:
        raise InputError("the turns have no timestamps, so the cache cannot expire; leave out --cache-minutes")
    prompt = _Prompt(policy)
    sent = peak = read = output = evictions = evicted = over_limit = 0
    before: Step | None = None
    for turn, step in enumerate(trace.steps):
        had = prompt.total
        prompt.add(step.parts, turn)
        gone, unchanged = prompt.evict(turn)
        sent += prompt.total
        peak = max(peak, prompt.total)
        read += min(had, unchanged) if _cached(before, step, prices) else 0
        output += step.output
        evictions += bool(gone)
        evicted += gone
        over_limit += policy.limit is not None and prompt.total > policy.limit
        before = step
    written = sent - read
    return SimulatedCost(
        policy=policy.name,
        sent=sent,
        peak=peak,
        read=read,
        written=written,
        output=output,
        evictions=evictions,
        evicted=evicted,
        over_limit=over_limit,
        cost=prices.cost(read=read, written=written, output=output),
    )


def _cached(before: Step | None, step: Step, prices: Prices) -> bool:
    if before is None or not prices.caching:
        return False
    if prices.cache_minutes is None or before.at is None or step.at is None:
        return True
    return step.at - before.at <= timedelta(minutes=prices.cache_minutes)


class _Prompt:
    """A prompt as a list of parts; an evicted part is empty or a stub."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._tokens: list[int] = []
        self._places: dict[int, list[int]] = {}
        # Least recently used first: a unit that grows moves to the end.
        self._units: dict[int, Unit] = {}
        self._standing = 0
        self.total = 0

    def add(self, parts: tuple[Part, ...], turn: int) -> None:
        for part in parts:
            self.total += part.tokens
            if part.standing:
                self._standing += part.tokens
            else:
                there = self._units.pop(part.unit, None)
                tokens = part.tokens + (there.tokens if there else 0)
                self._units[part.unit] = Unit(part.unit, tokens, self._policy.stub, turn, False)
                if there is None:
                    self._places[part.unit] = []
                self._places[part.unit].append(len(self._tokens))
            self._tokens.append(part.tokens)

    def evict(self, turn: int) -> tuple[int, int]:
        """Evict, and return the number of units and the tokens before the first of them."""
        leaving = self._policy.leaving(self._units, standing=self._standing, total=self.total, turn=turn)
        if not leaving:
            return 0, self.total
        first = len(self._tokens)
        for key in leaving:
            unit = self._units.pop(key)
            places = self._places.pop(key)
            first = min(first, places[0])
            for place in places:
                self._tokens[place] = 0
            self._tokens[places[0]] = unit.stub
            self._standing += unit.stub
            self.total -= unit.tokens - unit.stub
        return len(leaving), sum(self._tokens[:first])


# A synthetic session, identical on every machine, to compare policies without a recording


SYSTEM, REQUEST, ANSWER, CALL, LARGEST_RESULT = 8_000, 300, 150, 80, 8_000
TURNS_OF_A_REQUEST = 10
# The fractional parts of its multiples are spread evenly over 0 to 1 (a low-discrepancy sequence).
GOLDEN = 0.6180339887498949

SYNTHETIC = (
    f"a system prompt of {SYSTEM:,} tokens; each turn answers with {ANSWER} tokens and a tool call of {CALL}, "
    f"whose result has 0 to {LARGEST_RESULT:,}, evenly spread; each {TURNS_OF_A_REQUEST}th turn begins with "
    f"{REQUEST} tokens from the user"
)


def synthetic_trace(turns: int) -> Trace:
    """Return a synthetic session with the sizes of the default budget: its system tier, its largest result."""
    steps = []
    for turn in range(turns):
        parts = []
        if turn == 0:
            parts.append(Part(0, SYSTEM, standing=True))
        else:
            result = int(turn * GOLDEN % 1 * LARGEST_RESULT)
            parts += [Part(3 * turn, ANSWER), Part(3 * turn + 1, CALL), Part(3 * turn + 1, result)]
        if turn % TURNS_OF_A_REQUEST == 0:
            parts.append(Part(3 * turn + 2, REQUEST))
        steps.append(Step(tuple(parts), ANSWER + CALL))
    return Trace(tuple(steps))


# The assumptions of a simulation, as sentences to print below its table


def assumptions(trace: Trace, transcript: Transcript | None, prices: Prices, *, counter: str) -> list[str]:
    """Return the assumptions, most important first; without a transcript, those of the synthetic session."""
    return [*_requests(prices), *_evictions(), *_tokens(trace, transcript, counter)]


def remarks(transcript: Transcript) -> Iterator[str]:
    """Yield which lines of the recording were skipped."""
    if transcript.skipped:
        yield f"{_lines(transcript.skipped)} of other kinds skipped"
    if transcript.sidechains:
        yield f"{_lines(transcript.sidechains)} of subagents skipped; they have a context of their own"


def _requests(prices: Prices) -> Iterator[str]:
    yield "a turn is one request; its prompt is the system prompt and all entries that are kept"
    if prices.caching:
        yield (
            f"the unchanged beginning of the previous prompt is read from the cache at {prices.read:g}, "
            f"the rest is written at {prices.write:g}"
        )
        minutes = prices.cache_minutes
        yield (
            "the cache does not expire" if minutes is None else f"the cache expires {minutes:g} min after a request"
        )
    else:
        yield "there is no cache: each token of a prompt costs 1"
    yield f"answers cost {prices.output:g} per token and are those of the recording, whatever was evicted"


def _evictions() -> Iterator[str]:
    yield "a tool call and its result are evicted together; the system prompt and new entries of a turn stay"
    yield "least recently used means oldest, because recordings do not say when an entry is used again"
    yield f"watermarks leave a stub of {STUB_TOKENS} tokens for each evicted unit; the other policies leave nothing"
    yield "evicted content is not fetched again"


def _tokens(trace: Trace, transcript: Transcript | None, counter: str) -> Iterator[str]:
    if transcript is None:
        yield f"the synthetic session: {SYNTHETIC}"
        return
    images = sum(entry.images for entry in transcript.entries)
    pictures = f", images and other attachments ({images:,}) as {IMAGE_TOKENS:,} each" if images else ""
    yield f"text is counted by {counter}{pictures}; what a provider adds around messages is not counted"
    if trace.unseen:
        yield f"system prompt and tool schemas: {trace.unseen:,} tokens, from the usage of the first request"
    elif not any(entry.role == "system" for entry in transcript.entries):
        yield "the recording has no system prompt, so none is counted"
    if transcript.compactions:
        count = f"{transcript.compactions:,} compaction" + ("s" if transcript.compactions > 1 else "")
        yield f"{count} of the recording undone: the original messages are used, not the summaries"


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count:,} lines"
