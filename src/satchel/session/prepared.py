"""A result that is ready to be shown, and still to be entered into the books."""

from collections.abc import Callable, Sequence
from typing import Any

from satchel.session.accounts import FLOOR, Account
from satchel.session.contents import Packing
from satchel.session.ledger import Ledger, Posting
from satchel.session.shown import Shown
from satchel.store.ledger import Content

__all__ = ["Prepared", "enter_all"]


class Prepared:
    """Made by `Session.prepare`. What is shown whole needs no handle, so it may be shown before it is entered."""

    def __init__(
        self,
        ledger: Ledger,
        shown: Shown,
        make: Callable[[Account], Shown],
        packing: Packing,
        describe: Callable[[], dict[str, Any]],
        *,
        asked: int | None,
        extra: int,
        new_turn: bool,
    ) -> None:
        self.shown = shown
        self.warning: str | None = None
        """That tokens run low, where that is to be told now."""
        self._warned: int | None = None
        self._ledger = ledger
        self._make = make
        self._packing = packing
        self._describe = describe
        self._asked = asked
        self._extra = extra
        self._new_turn = new_turn

    def expect(self, *, warn: bool) -> None:
        """Let the ledger count on it: cut again, if others that are not entered yet take the room."""
        with self._ledger.lock:
            account = self._ledger.lately
            if self._is_over(account):
                self.shown = self._make(account)
            tokens = self.shown.token_count + self._extra
            self._ledger.expect(self, tokens, new_turn=self._new_turn)
        after = account.after(tokens)
        if warn and after.level != account.books.warned:
            self._warned = after.level
            self.warning = after.warning if after.level > account.books.warned else None

    def enter(self) -> Shown:
        """Enter it, and give what is to be shown: less, if other calls of the turn have taken room meanwhile."""
        # In this order: a thread may still be packing.
        fields, content = self._describe(), self._packing.done()
        try:
            with self._ledger.posting() as posting:
                account = self._ledger.with_ahead(posting.account, before=self)
                if self._is_over(account):
                    self.shown = self._make(account)
                self._begin(posting)
                self._post(posting, content, fields)
        finally:
            self._ledger.entered(self)
        return self.shown

    def _is_over(self, account: Account) -> bool:
        room = (account.in_next_turn() if self._new_turn else account).granted(self._asked)
        return 0 < self.shown.token_count > max(min(room, FLOOR), room - self._extra)

    def _begin(self, posting: Posting) -> None:
        if self._new_turn:
            posting.begin_turn()
        if self._warned is not None:
            posting.set(warned=self._warned)

    def _post(self, posting: Posting, content: Content, fields: dict[str, Any]) -> None:
        posting.enter(
            handle=self.shown.handle,
            content=content,
            category="tool_results",
            role="result",
            stop=len(self.shown.content),
            tokens=self.shown.token_count + self._extra,
            note=self.shown.note,
            **fields,
        )


def enter_all(results: Sequence[Prepared]) -> None:
    """Enter what has been shown already, as it was shown, in one transaction; all are of one session."""
    ledger = results[0]._ledger
    try:
        described = [(each, each._packing.done(), each._describe()) for each in results]
        with ledger.posting() as posting:
            for each, content, fields in described:
                each._begin(posting)
                each._post(posting, content, fields)
    finally:
        for each in results:
            ledger.entered(each)
