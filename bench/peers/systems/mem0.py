"""mem0 without a language model (`infer=False`): its default store, qdrant in a folder, with its hybrid search."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.peers.system import Hit, Memory, System
from bench.peers.vectors import DIMENSIONS, VectorTable
from bench.stop_words import STOP_WORDS

HOME = Path(sys.prefix, "mem0")
os.environ |= {
    "MEM0_DIR": str(HOME),
    "MEM0_TELEMETRY": "False",
    "FASTEMBED_CACHE_PATH": str(HOME / "fastembed"),
    "HF_HUB_OFFLINE": "1",
}

# These read the environment when they are imported.
from fastembed.sparse.bm25 import supported_bm25_models  # noqa: E402
from mem0 import Memory as Mem0  # noqa: E402
from mem0.embeddings.base import EmbeddingBase  # noqa: E402

__all__ = ["Adapter"]

USER = "someone"
# Its default store and model; the key is never used, because nothing is asked of the model.
PROVIDER: dict[str, Any] = {"provider": "openai", "config": {"api_key": "unused"}}


class TableEmbedding(EmbeddingBase):  # type: ignore[misc] # not installed where types are checked
    def __init__(self, vectors: VectorTable) -> None:
        super().__init__()
        self._vectors = vectors

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return self._vectors.floats(text)


class Adapter(System):
    packages = ("mem0ai", "qdrant-client", "fastembed")
    setup = "`infer=False`, qdrant in a folder, hybrid (vectors and BM25, without spaCy's lemmas); one `add` each"

    def __init__(self, folder: Path, vectors: VectorTable) -> None:
        _write_stop_words()
        store = {"path": str(folder / "qdrant"), "embedding_model_dims": DIMENSIONS}
        self._memory = Mem0.from_config(
            {
                "vector_store": {"provider": "qdrant", "config": store},
                "embedder": PROVIDER,
                "llm": PROVIDER,
                "history_db_path": str(folder / "history.db"),
            }
        )
        self._memory.embedding_model = TableEmbedding(vectors)
        if self._memory.vector_store.keyword_search("hybrid") is None:
            raise RuntimeError("the keyword search of mem0 does not work, so its search would not be hybrid")

    def ingest(self, memories: Sequence[Memory]) -> None:
        for memory in memories:
            self.add(memory)

    def add(self, memory: Memory) -> None:
        known = memory.metadata | {"ref": memory.id}
        self._memory.add(memory.searched, user_id=USER, metadata=known, infer=False)

    def search(self, query: str, limit: int) -> list[Hit]:
        found = self._memory.search(query, top_k=limit, filters={"user_id": USER}, threshold=0.0)["results"]
        return [Hit(each["metadata"]["ref"], each["memory"], each["score"]) for each in found]

    def close(self) -> None:
        self._memory.close()
        self._memory.vector_store.client.close()


def _write_stop_words() -> None:
    """Write the stop words where fastembed looks for those that it would download."""
    model = HOME / "fastembed" / "models--Qdrant--bm25"
    snapshot = model / "snapshots" / "local"
    if snapshot.exists():
        return
    snapshot.mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("local", encoding="ascii")
    described = supported_bm25_models[0]
    for name in (described.model_file, *described.additional_files):
        (snapshot / name).write_text("{}" if name.endswith(".json") else "", encoding="ascii")
    (snapshot / "english.txt").write_text("\n".join(sorted(STOP_WORDS)) + "\n", encoding="ascii")
