"""A result that is ready to be shown, and still to be entered into the books."""

from collections.abc import Callable
from typing import Any

from satchel.budget.accounts import Account
from satchel.budget.contents import Packing
from satchel.budget.ledger import Ledger
from satchel.budget.shown import Shown

__all__ = ["Prepared"]


class Prepared:
    """Made by `Session.prepare`. What is shown whole needs no handle, so it may be shown before it is entered."""

    def __init__(
        self,
        ledger: Ledger,
        shown: Shown,
        make: Callable[[Account], Shown],
        packing: Packing,
        fields: dict[str, Any],
        *,
        asked: int | None,
        extra: int,
        new_turn: bool,
    ) -> None:
        self.shown = shown
        self._ledger = ledger
        self._make = make
        self._packing = packing
        self._fields = fields
        self._asked = asked
        self._extra = extra
        self._new_turn = new_turn

    def enter(self, *, as_shown: bool = False) -> Shown:
        """Enter it, and give what is to be shown: less, if other calls of the turn have taken the room meanwhile.

        With `as_shown` it has gone out already, and is entered as it is.
        """
        shown, extra = self.shown, self._extra
        content = self._packing.done()
        with self._ledger.posting() as posting:
            if self._new_turn:
                posting.begin_turn()
            room = posting.account.granted(self._asked)
            if not as_shown and shown.token_count and shown.token_count + extra > room:
                shown = self._make(posting.account)
            posting.enter(
                handle=shown.handle,
                content=content,
                category="tool_results",
                role="result",
                stop=len(shown.content),
                tokens=shown.token_count + extra,
                note=shown.note,
                **self._fields,
            )
        return shown
