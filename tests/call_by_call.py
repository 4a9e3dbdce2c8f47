"""Drive a store one call at a time: each function of `memories` and `index` in its own transaction."""

from functools import partial
from typing import Any

from satchel.model.memory import Scope
from satchel.store import index, memories
from satchel.store.store import Store

__all__ = ["CallByCall"]

_READS = {
    name: getattr(memories, name)
    for name in ("resolve", "short_ids", "changed", "related_since", "unrelated_since", "count_names", "stats")
}
_READS |= {name: getattr(index, name) for name in ("embedding", "backlog", "backlog_size", "unembedded")}
_WRITES = {
    name: getattr(memories, name)
    for name in ("add", "put", "put_relations", "change", "forget", "unforget", "purge", "relate", "unrelate")
}
_WRITES |= {
    name: getattr(index, name)
    for name in ("adopt", "embed_backlog", "begin_reembedding", "fill", "finish_reembedding")
}


class CallByCall:
    """A store with these functions as methods; other attributes are the store's own."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __getattr__(self, name: str) -> Any:
        if name in _READS or name in _WRITES:
            return partial(self._call, name)
        return getattr(self.store, name)

    def within(self, org: str) -> "CallByCall":
        return CallByCall(self.store.within(org))

    def history(self, scope: Scope, identifier: str) -> Any:
        with self.store.reading(scope.org) as tx:
            return memories.history(tx, scope.org, identifier)

    def _call(self, name: str, *given: Any, **options: Any) -> Any:
        with self.store.reading() if name in _READS else self.store.writing() as tx:
            return (_READS.get(name) or _WRITES[name])(tx, *given, **options)
