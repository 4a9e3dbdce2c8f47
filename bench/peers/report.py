"""Tables of what was measured, for the terminal and as Markdown."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bench import notes
from bench.peers.measure import BUDGETS, CONTEXT, FILLED, OURS, Kept, Speed

__all__ = ["Table", "evidence_table", "markdown", "notes_table", "speed_tables", "systems_table"]

MISSING = "–"
NOTES_MEASURES = {
    "recall": "evidence in 500 tokens, %",
    "hit1": "first hit is evidence, %",
    "current": "evidence above outdated, %",
    "mrr": "mrr, %",
    "tokens": "tokens used",
}


class Table(NamedTuple):
    """A title, and rows of cells; the first row is the heading."""

    title: str
    rows: Sequence[Sequence[str]]


def systems_table(about: Mapping[str, Mapping[str, Any]], failures: Mapping[str, str]) -> Table:
    """Return what each system is, or why it could not be measured."""
    rows = [("system", "versions", "how it is set up")]
    for name, facts in about.items():
        rows.append((name, str(facts["versions"]), failures.get(name) or str(facts["setup"])))
    return Table("systems", rows)


def speed_tables(size: int, queries: int, measured: Mapping[str, Speed], systems: Sequence[str]) -> list[Table]:
    """Return one table about building a store, and one about asking it."""
    building = {name: _building(each, size) for name, each in measured.items() if name != CONTEXT}
    heading = ("memories/s", "CPU ms each", "add one, p50 ms", "MB on disk", "MB of memory")
    asking = {name: _asking(each) for name, each in measured.items()}
    asked = ("p50 ms", "p95 ms", "CPU ms", "found, %", "MB of memory", "cold start, ms", "× python")
    return [
        _table(f"building a store of {size:,} memories", heading, systems, building),
        _table(f"{queries} questions over {size:,} memories, 10 hits each", asked, systems, asking),
    ]


def _building(each: Speed, size: int) -> list[str]:
    built = each.built
    return [
        f"{size / built.seconds:,.0f}",
        f"{1000 * built.cpu / size:.2f}",
        f"{each.added.p50:.1f}",
        f"{built.disk / 1e6:.1f}",
        f"{built.peak / 1e6:,.0f}",
    ]


def _asking(each: Speed) -> list[str]:
    timing = each.searched
    return [
        f"{timing.p50:.1f}",
        f"{timing.p95:.1f}",
        f"{timing.cpu:.1f}",
        MISSING if timing.found is None else f"{100 * timing.found:.0f}",
        f"{each.peak / 1e6:,.0f}",
        f"{each.start:,.0f}",
        f"{each.multiple:.1f}",
    ]


def evidence_table(title: str, kept: Mapping[str, Mapping[int, Sequence[Kept]]], systems: Sequence[str]) -> Table:
    """Return the mean evidence recall within each budget, and the tokens used of the middle one."""
    middle = BUDGETS[1]
    cells = {}
    for name, by_budget in kept.items():
        means = [statistics.fmean(each.recall for each in by_budget[budget]) for budget in BUDGETS]
        used = statistics.fmean(each.tokens for each in by_budget[middle])
        cells[name] = [*(f"{100 * mean:.1f}" for mean in means), f"{used:,.0f}"]
    heading = [*(f"{budget:,} tokens" for budget in BUDGETS), f"used of {middle:,}"]
    return _table(title, heading, systems, cells)


def notes_table(title: str, records: Mapping[str, Iterable[notes.Record]], systems: Sequence[str]) -> Table:
    """Return the measures of bench.notes."""
    cells = {}
    for name, found in records.items():
        values = notes.summary(found)
        cells[name] = [_cell(measure, values[measure]) for measure in NOTES_MEASURES]
    return _table(title, list(NOTES_MEASURES.values()), systems, cells)


def _cell(measure: str, value: float | None) -> str:
    if value is None:
        return MISSING
    return f"{value:.0f}" if measure == "tokens" else f"{100 * value:.1f}"


def _table(title: str, heading: Sequence[str], systems: Sequence[str], cells: Mapping[str, Sequence[str]]) -> Table:
    """Return a row for every system, those of Satchel next to each other; one without cells has dashes."""
    rows: list[Sequence[str]] = [("", *heading)]
    for system in systems:
        names = [name for name in (OURS, FILLED, CONTEXT) if name in cells] if system == OURS else [system]
        rows += [(name, *cells.get(name, [MISSING] * len(heading))) for name in names or [system]]
    return Table(title, rows)


def markdown(tables: Iterable[Table], remarks: Iterable[str]) -> str:
    """Return the tables in Markdown, after remarks such as the command and the date."""
    parts = ["\n".join(remarks)]
    for table in tables:
        heading, *rows = [[cell.replace("|", "\\|") for cell in row] for row in table.rows]
        lines = [_line(heading), "|" + "---|" * len(heading), *map(_line, rows)]
        parts.append(f"**{table.title[0].upper()}{table.title[1:]}**\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
