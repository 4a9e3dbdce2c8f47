"""What a session's books come to: used, remaining, what the next result may have, and the warning."""

from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from satchel.session.calibration import Calibration
from satchel.session.plan import Budget
from satchel.store.ledger import Books

__all__ = ["FLOOR", "Account", "account_of"]

FLOOR = 400
"""Tokens that a result gets in any case, if `per_call` is not less: room for a note, and a beginning."""

_budget_decoder = msgspec.json.Decoder(Budget)
_calibration_decoder = msgspec.json.Decoder(Calibration)


class Account(NamedTuple):
    books: Books
    budget: Budget
    calibration: Calibration

    @property
    def used(self) -> dict[str, int]:
        """Tokens by category, as the model counts them; the schemas it is sent each time are with the system."""
        real = self.calibration.corrected
        return {
            "system": real(self.books.system) + self.calibration.overhead,
            "history": real(self.books.history),
            "tool_results": real(self.books.tool_results),
            "user": real(self.books.user_message),
            "response_reserve": self.budget.response,
        }

    @property
    def remaining(self) -> int:
        return max(0, self.budget.total - sum(self.used.values()))

    @property
    def room(self) -> int:
        """Counted tokens that results may still have in this turn."""
        left = self.budget.tool_results - self.calibration.corrected(self.books.turn_results)
        if self.books.holds == "digests":
            # What the caller cannot take out of its context, the next turn has to make room for.
            left = min(left, self.remaining)
        return self.calibration.within(max(0, left))

    @property
    def allocation(self) -> int:
        """Counted tokens for the next result: a call's share, and never more than half of what is left."""
        return min(self._share, max(FLOOR, self.room // 2))

    def granted(self, asked: int | None) -> int:
        """Counted tokens for a result whose caller asks for so many."""
        return self.allocation if asked is None else min(asked, max(min(FLOOR, self._share), self.room))

    @property
    def _share(self) -> int:
        return self.calibration.within(self.budget.per_call)

    def in_next_turn(self) -> "Account":
        return self._replace(books=msgspec.structs.replace(self.books, turn_results=0))

    def after(self, tokens: int) -> "Account":
        """What it comes to once a result of so many tokens is entered."""
        books = msgspec.structs.replace(
            self.books,
            tool_results=self.books.tool_results + tokens,
            turn_results=self.books.turn_results + tokens,
        )
        return self._replace(books=books)

    @property
    def level(self) -> int:
        """0 where all is well, 1 low, 2 critical."""
        return (self.remaining < self.budget.warn_below) + (self.remaining < self.budget.critical_below)

    @property
    def warning(self) -> str | None:
        thousands = f"~{self.remaining // 1000}k tokens remaining."
        return (
            None,
            f"[Budget Alert: {thousands} Consider summarizing or completing soon.]",
            f"[Budget Critical: {thousands} Summarize and complete now.]",
        )[self.level]

    def suggested(self, cost: int) -> int:
        """How many items of so many tokens the next result has room for; at least one."""
        return max(1, self.allocation // max(1, cost))

    def state(self) -> dict[str, Any]:
        return {
            "total_budget": self.budget.total,
            "used": self.used,
            "remaining": self.remaining,
            "per_tool_budget": self.allocation,
            "warning": self.warning,
            "session": self.books.name,
            "turn": self.books.turn,
            "results": self.books.results,
            "delivered": self.books.delivered,
            "evicted": self.books.evicted,
        }


def account_of(books: Books) -> Account:
    return Account(books, _budget(books.budget), _calibration(books.calibration))


# They are asked for several times a call and seldom change.
@lru_cache(maxsize=64)
def _budget(text: str) -> Budget:
    return _budget_decoder.decode(text)


@lru_cache(maxsize=64)
def _calibration(text: str) -> Calibration:
    return _calibration_decoder.decode(text)
