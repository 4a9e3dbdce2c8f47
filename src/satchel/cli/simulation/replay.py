"""A trace played through a policy, request by request, with the bill of a prompt cache."""

from datetime import timedelta

import msgspec

from satchel.cli.simulation.policies import Policy
from satchel.cli.simulation.prices import Prices
from satchel.cli.simulation.trace import Part, Step, Trace
from satchel.errors import InputError
from satchel.session.eviction import Unit

__all__ = ["Outcome", "replay"]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a trace; everything but the cost is in tokens."""

    policy: str
    sent: int
    peak: int
    read: int
    """Of what was sent, what the cache had."""
    written: int
    output: int
    evictions: int
    """On how many turns something went."""
    evicted: int
    """How many units went."""
    over_limit: int
    """On how many turns the prompt was over the policy's limit even so."""
    cost: float
    """In tokens at the price of plain input."""


def replay(trace: Trace, policy: Policy, prices: Prices) -> Outcome:
    """The sums over all requests. The cache has the part of a prompt that is as it was in the request before."""
    if prices.caching and prices.cache_minutes is not None and not trace.timed:
        raise InputError("the turns have no times, so nothing can expire; leave out the minutes of the cache")
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
    return Outcome(
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
    """The parts at their places, of which those that went are nothing or a stub."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._tokens: list[int] = []
        self._places: dict[int, list[int]] = {}
        # Least recently used first: whatever grows goes to the end.
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
        """How many units went, and the tokens before the first of them, which is all where none did."""
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
