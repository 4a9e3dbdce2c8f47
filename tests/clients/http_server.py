"""`satchel mcp --http` in a separate process, on a free port of loopback."""

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from conftest import clean_environment
from mcp_pipe import LONGEST_WAIT, SATCHEL

__all__ = ["mcp_over_http"]


@contextlib.contextmanager
def mcp_over_http(folder: Path) -> Iterator[str]:
    """Serve the store of a folder, and return the address, which the server prints in its first line."""
    log = folder / "server.log"
    with open(log, "w") as output:
        command = [SATCHEL, "mcp", "--http", "127.0.0.1:0"]
        process = subprocess.Popen(command, cwd=folder, env=clean_environment(folder), stderr=output)
    try:
        deadline = time.monotonic() + LONGEST_WAIT
        while "\n" not in log.read_text():
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()  # noqa: PT018
            time.sleep(0.05)
        first = log.read_text().splitlines()[0]
        assert "serving http://" in first, first
        yield first.split()[-1]
    finally:
        process.terminate()
        process.wait(LONGEST_WAIT)
