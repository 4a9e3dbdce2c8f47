"""One line to a client: how long it may take to ask, and to read what it is answered."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["Connection"]

HEAD_SECONDS = 10.0
READ_SECONDS = 30.0
LEAST_READ = 64 * 1024


class Connection(H11Protocol):
    """Hangs up on a client whose request does not begin in time or never ends its headers, or who does not read."""

    _late: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def handle_events(self) -> None:
        super().handle_events()
        if self._late is not None and self.cycle is not None and not self.cycle.response_complete:
            self._late.cancel()
            self._late = None

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle is None or self.cycle.response_complete:
            self._expect_head()
            self._expect_reader()

    # An answer is handed over whole, and stays here until it is read: whoever sends it does not wait for that.
    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_watching()
        if self.cycle is not None and self.cycle.response_complete:
            self._expect_reader()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._late is not None:
            self._late.cancel()
        super().connection_lost(exc)
        self._stop_watching()

    def _unsupported_upgrade_warning(self) -> None:
        """Who asks for another protocol is answered in this one, and whoever runs the service has nothing to do."""

    def _expect_head(self) -> None:
        if self._late is not None:
            self._late.cancel()
        self._late = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _expect_reader(self) -> None:
        if (size := self.transport.get_write_buffer_size()) and self._unread is None:
            self._unread = self.loop.call_later(READ_SECONDS, self._check_reader, size)

    def _check_reader(self, before: int) -> None:
        """To close would wait until all is read; who reads slowly, but reads, is let go on."""
        self._unread = None
        if self.transport.get_write_buffer_size() > max(0, before - LEAST_READ):
            self.transport.abort()
        else:
            self._expect_reader()

    def _stop_watching(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
