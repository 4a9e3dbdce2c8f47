"""Run work in a new process, so that memory and caches are its own."""

import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple, ParamSpec, TypeVar

import satchel
from bench.corpus import EMBEDDER
from bench.peak import peak_bytes
from satchel.embed.embedder import resolve_embedder

__all__ = ["Building", "build", "in_fresh_process", "peaks_of_asking"]

P = ParamSpec("P")
R = TypeVar("R")


class Building(NamedTuple):
    """Wall-clock seconds, CPU seconds and peak resident memory."""

    seconds: float
    cpu: float
    peak: int


def in_fresh_process(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *args, **kwargs).result()


def build(source: Path, store: Path, size: int) -> Building:
    """Import a file of `size` lines into a new store, including opening and closing it."""
    _load_models()
    started, used = time.perf_counter(), time.process_time()
    with satchel.open(store, embedder=EMBEDDER) as bag:
        done = bag.import_(source)
    seconds, cpu = time.perf_counter() - started, time.process_time() - used
    if done.added != size:
        raise RuntimeError(f"{done.added} of {size} memories were added to {store}: {done.problems[:3]}")
    return Building(seconds, cpu, peak_bytes())


def peaks_of_asking(store: Path, questions: Sequence[str], budget: int) -> tuple[int, int]:
    """Return the peak memory before a store is opened, and after queries to it."""
    _load_models()
    idle = peak_bytes()
    with satchel.open(store, create=False) as bag:
        for question in questions:
            bag.context(question, token_budget=budget)
            bag.search(question)
    return idle, peak_bytes()


def _load_models() -> None:
    """Load what a long-lived process loads once."""
    satchel.count_tokens("a word")
    resolve_embedder(EMBEDDER).embed(["a word"])
