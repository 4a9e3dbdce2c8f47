"""LlamaIndex: a VectorStoreIndex over its own simple vector store, kept in a folder."""

from collections.abc import Sequence
from pathlib import Path

from llama_index.core import StorageContext, VectorStoreIndex, load_index_from_storage
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import TextNode
from pydantic import PrivateAttr

from bench.peers.system import Hit, Memory, System
from bench.peers.vectors import VectorTable

__all__ = ["Adapter"]


class TableEmbedding(BaseEmbedding):  # type: ignore[misc] # not installed where types are checked
    _vectors: VectorTable = PrivateAttr()

    def __init__(self, vectors: VectorTable) -> None:
        super().__init__(model_name="table")
        self._vectors = vectors

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._vectors.floats(text)

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._vectors.floats(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._vectors.floats(query)


class Adapter(System):
    packages = ("llama-index-core",)
    setup = (
        "VectorStoreIndex, SimpleVectorStore, vectors only; `insert_nodes` in bulk; every save rewrites its files"
    )

    def __init__(self, folder: Path, vectors: VectorTable) -> None:
        self._folder = str(folder)
        embedding = TableEmbedding(vectors)
        if any(folder.iterdir()):
            storage = StorageContext.from_defaults(persist_dir=self._folder)
            self._index = load_index_from_storage(storage, embed_model=embedding)
        else:
            self._index = VectorStoreIndex([], embed_model=embedding)

    def ingest(self, memories: Sequence[Memory]) -> None:
        self._index.insert_nodes([_node(each) for each in memories])
        self._index.storage_context.persist(self._folder)

    def add(self, memory: Memory) -> None:
        self.ingest([memory])

    def search(self, query: str, limit: int) -> list[Hit]:
        found = self._index.as_retriever(similarity_top_k=limit).retrieve(query)
        return [Hit(each.node.node_id, each.node.text, each.score) for each in found]

    def close(self) -> None:
        pass


def _node(memory: Memory) -> TextNode:
    known = memory.metadata
    return TextNode(id_=memory.id, text=memory.searched, metadata=known, excluded_embed_metadata_keys=list(known))
