"""The state that the tools of one MCP server share: store, specs, pages of long answers, session."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from satchel.api.satchel import Satchel
from satchel.fitting.listing import Portion
from satchel.server.mcp.answers import Allowance, Answer, PageCache, Remainder, cursor_for, fitted, said
from satchel.server.recorder import Recorder
from satchel.server.specs.specs import Specs

__all__ = ["MOST_TOKENS", "StartedSession", "ToolContext"]

MOST_TOKENS = 20_000
_OF_THE_SERVER = ("project", "token_budget", "cursor")


class StartedSession(NamedTuple):
    """The working session that `mem_session` started. New memories belong to it."""

    name: str
    project: str | None


class ToolContext:
    """The state of one MCP server, shared by its tool calls, which run in threads.

    It gives a tool its view of the store and its token budget, and pages what does not fit.
    """

    def __init__(
        self,
        bag: Satchel,
        specs: Specs,
        *,
        most_tokens: int = MOST_TOKENS,
        remembers_session: bool = True,
        structured: bool = False,
        recorder: Recorder | None = None,
        pages: PageCache | None = None,
    ) -> None:
        self.bag = bag
        self.specs = specs
        self.most_tokens = most_tokens
        self.remembers_session = remembers_session
        """False if several clients share the server: one must not write into the session of another."""
        self._sends_structured = structured
        self.recorder = recorder
        self.session: StartedSession | None = None
        self._pages = pages or PageCache()

    def view(self, given: dict[str, Any]) -> Satchel:
        """Return the view of the project that a call names, or of the whole store."""
        return self.bag.scoped(project=given.get("project"))

    def options(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments for the method of `Satchel`: all but the project, the budget and the cursor."""
        return {name: value for name, value in given.items() if name not in _OF_THE_SERVER}

    def allowance(self, given: dict[str, Any]) -> Allowance:
        """Return the budget of an answer: that of the call, or else the limit of the server."""
        asked = given.get("token_budget")
        tokens = self.most_tokens if asked is None else asked
        # A tool without detail levels has no detail among its arguments.
        return Allowance(tokens, asked is not None, shortens=given.get("detail", "summary") != "summary")

    def count(self, text: str) -> int:
        return self.bag.counter.count(text)

    def structured(self, answer: Answer) -> dict[str, Any] | None:
        """Return the structured content of an answer, or None.

        The answer to a read has it only if the server was started so, and if it fits the budget together with the
        text, because some clients show a model both.
        """
        return answer.structured(self.count) if self._sends_structured or answer.most is None else None

    def listed(
        self,
        tool: str,
        portions: Sequence[Portion],
        given: dict[str, Any],
        *,
        nothing: str,
        noun: str = "memories",
        in_turn: bool = False,
        per_page: int | None = None,
    ) -> Answer:
        """Return as many portions as fit. What the limit of the server leaves out is kept for a cursor.

        With `per_page` there are always pages, each with at most so many portions.
        """
        if not portions:
            return self.remark(nothing, given)
        listing = Remainder(tool, tuple(portions), len(portions), noun, per_page)
        return self._page(listing, given, in_turn=in_turn, paging=per_page is not None)

    def continued(self, tool: str, given: dict[str, Any]) -> Answer | None:
        """Return the next page if the call has a cursor, else None."""
        if (cursor := given.get("cursor")) is None:
            return None
        return self._page(self._pages.get(cursor, tool), given, paging=True)

    def keep_for_cursor(self, cursor: str, tool: str, portions: Sequence[Portion], *, total: int) -> None:
        """Keep portions for a call with this cursor."""
        self._pages.put(cursor, Remainder(tool, tuple(portions), total, "memories"))

    def remark(self, text: str, given: dict[str, Any]) -> Answer:
        """Return a text in place of memories, such as "Nothing matched."."""
        return said(f"{text}\n", self.allowance(given), self.count)

    def _page(
        self, rest: Remainder, given: dict[str, Any], *, paging: bool = False, in_turn: bool = False
    ) -> Answer:
        allowance = self.allowance(given)
        # Whoever set a budget wants that much; whoever did not wants it all, in several pages.
        pages = paging or not allowance.given
        portions = tuple(_paged(rest.portions, allowance.tokens)) if pages else rest.portions
        cursor = cursor_for(rest.tool, portions, allowance.tokens) if pages else None
        later = portions[rest.per_page :] if rest.per_page else ()
        page = fitted(
            portions[: rest.per_page],
            allowance,
            self.count,
            total=rest.total,
            noun=rest.noun,
            cursor=cursor,
            in_turn=in_turn or pages,
            more=bool(later),
        )
        if cursor is not None and (left := (*page.rest, *later)):
            self._pages.put(cursor, msgspec.structs.replace(rest, portions=left))
        return page.answer


def _paged(portions: Sequence[Portion], tokens: int) -> list[Portion]:
    """Return the portions, those that may exceed a page marked as splittable. No character has over four tokens."""
    return [portion._replace(splits=portion.splits or 4 * len(portion.text) > tokens) for portion in portions]
