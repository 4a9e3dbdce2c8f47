"""txtai: hybrid embeddings (BM25 and dense vectors) with content in SQLite."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from txtai import Embeddings

from bench.peers.system import Hit, Memory, System
from bench.peers.vectors import VectorTable

__all__ = ["Adapter", "transform"]

_tables: list[VectorTable] = []


def transform(texts: Sequence[str]) -> Any:
    """Return the vectors of texts. txtai finds this function by its name, which is what a saved index has of it."""
    return np.stack([np.frombuffer(_tables[-1].packed(text), np.float32) for text in texts])


class Adapter(System):
    packages = ("txtai", "faiss-cpu", "torch")
    setup = (
        "hybrid (BM25 and faiss, its defaults), content in SQLite; `index` in bulk; every save rewrites its files"
    )

    def __init__(self, folder: Path, vectors: VectorTable) -> None:
        _tables.append(vectors)
        os.environ["ALLOW_RESOLVE_TRANSFORM"] = "True"
        self._path = str(folder / "index")
        self._embeddings = Embeddings(
            method="external", transform=f"{__name__}.transform", content=True, hybrid=True
        )
        if Path(self._path).exists():
            self._embeddings.load(self._path)

    def ingest(self, memories: Sequence[Memory]) -> None:
        self._embeddings.index(map(_row, memories))
        self._embeddings.save(self._path)

    def add(self, memory: Memory) -> None:
        self._embeddings.upsert([_row(memory)])
        self._embeddings.save(self._path)

    def search(self, query: str, limit: int) -> list[Hit]:
        return [Hit(each["id"], each["text"], each["score"]) for each in self._embeddings.search(query, limit)]

    def close(self) -> None:
        self._embeddings.close()


def _row(memory: Memory) -> tuple[str, dict[str, str], None]:
    return memory.id, {"text": memory.searched, **memory.metadata}, None
