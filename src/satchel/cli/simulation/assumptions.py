"""What a simulation takes for granted, in sentences to print under its table."""

from collections.abc import Iterator

from satchel.cli.simulation.policies import STUB_TOKENS
from satchel.cli.simulation.prices import Prices
from satchel.cli.simulation.synthetic import SYNTHETIC
from satchel.cli.simulation.trace import IMAGE_TOKENS, Trace
from satchel.cli.transcripts.assembly import Transcript

__all__ = ["assumptions", "remarks"]


def assumptions(trace: Trace, transcript: Transcript | None, prices: Prices, *, counter: str) -> list[str]:
    """In the order in which they matter; without a transcript the trace is the synthetic one."""
    return [*_requests(prices), *_evictions(), *_tokens(trace, transcript, counter)]


def remarks(transcript: Transcript) -> Iterator[str]:
    """What of a recording was not used."""
    if transcript.skipped:
        yield f"{_lines(transcript.skipped)} of other kinds skipped"
    if transcript.sidechains:
        yield f"{_lines(transcript.sidechains)} of subagents skipped; they have a context of their own"


def _requests(prices: Prices) -> Iterator[str]:
    yield "a turn is one request; its prompt is the system prompt and all entries that are kept"
    if prices.caching:
        yield (
            f"what is the same from the start as in the request before is read from the cache at {prices.read:g}, "
            f"the rest is written at {prices.write:g}"
        )
        minutes = prices.cache_minutes
        yield (
            "the cache does not expire" if minutes is None else f"the cache expires {minutes:g} min after a request"
        )
    else:
        yield "there is no cache: each token of a prompt costs 1"
    yield f"answers cost {prices.output:g} a token and are those of the recording, whatever was evicted"


def _evictions() -> Iterator[str]:
    yield "a tool call and its result leave together; the system prompt and what is new on a turn stay"
    yield "the least recently used is the oldest, since nobody records when an entry is used again"
    yield f"watermarks leave a stub of {STUB_TOKENS} tokens for each unit, which stays; the others nothing"
    yield "nothing that was evicted is fetched again"


def _tokens(trace: Trace, transcript: Transcript | None, counter: str) -> Iterator[str]:
    if transcript is None:
        yield f"the synthetic session: {SYNTHETIC}"
        return
    images = sum(entry.images for entry in transcript.entries)
    pictures = f", images and other attachments ({images:,}) as {IMAGE_TOKENS:,} each" if images else ""
    yield f"text is counted by {counter}{pictures}; what a provider adds around messages is not counted"
    if trace.unseen:
        yield f"system prompt and tool schemas: {trace.unseen:,} tokens, by the usage of the first request"
    elif not any(entry.role == "system" for entry in transcript.entries):
        yield "there is no system prompt in the recording, so none is counted"
    if transcript.compactions:
        count = f"{transcript.compactions:,} compaction" + ("s" if transcript.compactions > 1 else "")
        yield f"{count} of the recording undone: what was summed up stays, the summaries are left out"


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count:,} lines"
