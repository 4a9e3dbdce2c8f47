"""What the tools of one MCP server share: the store, the specs, the rests of long answers, the session."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from satchel.api.satchel import Satchel
from satchel.fitting.listing import Portion
from satchel.server.mcp.answers import Allowance, Answer, PageCache, Rest, cursor_for, fitted, said
from satchel.server.recorder import Recorder
from satchel.server.specs.specs import Specs

__all__ = ["MOST_TOKENS", "StartedSession", "ToolContext"]

MOST_TOKENS = 20_000
_OF_THE_SERVER = ("project", "token_budget", "cursor")


class StartedSession(NamedTuple):
    """The working session that `mem_session` has started, to which new memories belong."""

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
        text_only: bool = False,
        recorder: Recorder | None = None,
    ) -> None:
        self.bag = bag
        self.specs = specs
        self.most_tokens = most_tokens
        self.remembers_session = remembers_session
        """False where several clients share the server: one must not write into another's session."""
        self.text_only = text_only
        """Whether what is read comes as text alone."""
        self.recorder = recorder
        self.session: StartedSession | None = None
        self._pages = PageCache()

    def view(self, given: dict[str, Any]) -> Satchel:
        """The store, inside the project that a call names."""
        return self.bag.scoped(project=given.get("project"))

    def options(self, given: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call that its method takes: all but the project, the budget and the cursor."""
        return {name: value for name, value in given.items() if name not in _OF_THE_SERVER}

    def allowance(self, given: dict[str, Any]) -> Allowance:
        """How many tokens the answer to a call may have: its budget, or else the server's own limit."""
        asked = given.get("token_budget")
        return Allowance(self.most_tokens, False) if asked is None else Allowance(asked, True)

    def count(self, text: str) -> int:
        return self.bag.counter.count(text)

    def structured(self, answer: Answer) -> dict[str, Any] | None:
        """The structured content beside the text; None if there is to be none, or if it does not fit."""
        return None if self.text_only and answer.most is not None else answer.structured(self.count)

    def listed(
        self,
        tool: str,
        portions: Sequence[Portion],
        given: dict[str, Any],
        *,
        nothing: str,
        noun: str = "memories",
        in_turn: bool = False,
    ) -> Answer:
        """As many portions as fit the budget of the call; what the server's limit leaves out comes by cursor."""
        if not portions:
            return self.remark(nothing, given)
        return self._page(Rest(tool, tuple(portions), len(portions), noun), given, in_turn=in_turn)

    def continued(self, tool: str, given: dict[str, Any]) -> Answer | None:
        """The next page, if the call has a cursor; else None."""
        if (cursor := given.get("cursor")) is None:
            return None
        return self._page(self._pages.get(cursor, tool), given, paging=True)

    def put_aside(self, cursor: str, tool: str, portions: Sequence[Portion], *, total: int) -> None:
        """Keep portions to be given under this cursor."""
        self._pages.put(cursor, Rest(tool, tuple(portions), total, "memories"))

    def remark(self, text: str, given: dict[str, Any]) -> Answer:
        """A text instead of memories, such as that nothing matched."""
        return said(f"{text}\n", self.allowance(given), self.count)

    def _page(self, rest: Rest, given: dict[str, Any], *, paging: bool = False, in_turn: bool = False) -> Answer:
        allowance = self.allowance(given)
        # Whoever set a budget wants that much; whoever did not wants it all, in several pages.
        pages = paging or not allowance.given
        portions = _paged(rest.portions, allowance.tokens) if pages else rest.portions
        cursor = cursor_for(rest.tool, portions, allowance.tokens) if pages else None
        page = fitted(
            portions,
            allowance,
            self.count,
            total=rest.total,
            noun=rest.noun,
            cursor=cursor,
            in_turn=in_turn or pages,
        )
        if cursor is not None and page.rest:
            self._pages.put(cursor, Rest(rest.tool, page.rest, rest.total, rest.noun))
        return page.answer


def _paged(portions: Sequence[Portion], tokens: int) -> list[Portion]:
    """The portions; those that may be longer than a page can be split. No character has over four tokens."""
    return [portion._replace(splits=portion.splits or 4 * len(portion.text) > tokens) for portion in portions]
