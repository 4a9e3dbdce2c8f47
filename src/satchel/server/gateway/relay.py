"""What servers say of their own accord, on its way to the client, and the client's answers on their way back."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from satchel.server.gateway.upstream import Upstream
from satchel.server.gateway.wire import (
    METHOD_NOT_FOUND,
    Identifier,
    Message,
    answer,
    as_identifier,
    failure,
    notification,
    request,
)

__all__ = ["Relay"]

_NEEDS = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
_PASSED = frozenset(
    {"notifications/message", "notifications/resources/updated", "notifications/elicitation/complete"}
)


class _Question(NamedTuple):
    upstream: Upstream
    identifier: Identifier


class Relay:
    """Questions of servers, under ids of our own, until the client has answered them."""

    def __init__(self, say: Callable[[Message], None]) -> None:
        self._say = say
        self._open: dict[str, _Question] = {}
        self._number = 0
        self.capabilities: Message = {}
        """Of the client; what it cannot do it is not asked."""

    def asked(self, upstream: Upstream, message: Message) -> None:
        method, identifier = message["method"], as_identifier(message["id"])
        if identifier is None:
            return
        if method == "ping":
            upstream.reply(answer(identifier, {}))
        elif method in _NEEDS and _NEEDS[method] in self.capabilities:
            self._number += 1
            own = f"satchel-{self._number}"
            self._open[own] = _Question(upstream, identifier)
            self._say(request(own, method, message.get("params")))
        else:
            upstream.reply(failure(identifier, METHOD_NOT_FOUND, f"the client does not know {str(method)[:80]}"))

    def answered(self, message: Message) -> None:
        """The client's answer, to whoever asked."""
        if isinstance(message.get("id"), str) and (question := self._open.pop(message["id"], None)) is not None:
            question.upstream.reply(message | {"id": question.identifier})

    def passed(self, upstream: Upstream, method: str, params: Message) -> bool:
        """Whether it was for the client, which has it now."""
        if method == "notifications/cancelled":
            self._cancel(
                [own for own in self._of(upstream) if self._open[own].identifier == params.get("requestId")]
            )
            return True
        if method in _PASSED:
            self._say(notification(method, params))
            return True
        return False

    def forget(self, upstream: Upstream) -> None:
        """A server that has gone waits for no answers."""
        self._cancel(list(self._of(upstream)))

    def _of(self, upstream: Upstream) -> Iterator[str]:
        return (own for own, question in self._open.items() if question.upstream is upstream)

    def _cancel(self, owns: list[str]) -> None:
        for own in owns:
            del self._open[own]
            self._say(notification("notifications/cancelled", {"requestId": own}))
