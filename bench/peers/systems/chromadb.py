"""chromadb: a persistent client with a collection and an embedding function."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
from chromadb.config import Settings

from bench.peers.system import Hit, Memory, System
from bench.peers.vectors import VectorTable

__all__ = ["Adapter"]


class TableEmbedding(chromadb.EmbeddingFunction[Any]):  # type: ignore[misc] # not installed where types are checked
    def __init__(self, vectors: VectorTable) -> None:
        self._vectors = vectors

    def __call__(self, input: Sequence[str]) -> list[Any]:
        return [np.frombuffer(self._vectors.packed(text), np.float32) for text in input]

    @staticmethod
    def name() -> str:
        return "default"


class Adapter(System):
    packages = ("chromadb",)
    setup = "PersistentClient, one collection (HNSW, its default parameters), vectors only; `add` in bulk"

    def __init__(self, folder: Path, vectors: VectorTable) -> None:
        settings = Settings(anonymized_telemetry=False)
        self._client = chromadb.PersistentClient(path=str(folder), settings=settings)
        self._collection = self._client.get_or_create_collection(
            "memory", embedding_function=TableEmbedding(vectors)
        )

    def ingest(self, memories: Sequence[Memory]) -> None:
        size = self._client.get_max_batch_size()
        for start in range(0, len(memories), size):
            some = memories[start : start + size]
            self._collection.add(
                ids=[each.id for each in some],
                documents=[each.searched for each in some],
                metadatas=[each.metadata or None for each in some],
            )

    def add(self, memory: Memory) -> None:
        self.ingest([memory])

    def search(self, query: str, limit: int) -> list[Hit]:
        found = self._collection.query(query_texts=[query], n_results=limit)
        columns = zip(found["ids"][0], found["documents"][0], found["distances"][0], strict=True)
        return [Hit(identifier, text, -distance) for identifier, text, distance in columns]

    def close(self) -> None:
        self._client.close()
