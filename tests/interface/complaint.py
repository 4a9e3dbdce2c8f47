"""How a command must exit when it cannot do what was asked."""

import subprocess

__all__ = ["complaint"]

BAD_INPUT = 2


def complaint(done: subprocess.CompletedProcess[str], *, code: int = BAD_INPUT) -> str:
    """The one line on stderr, after nothing on stdout; not an error that nobody foresaw."""
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert "unexpected" not in done.stderr or "unexpected extra argument" in done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("satchel: ")
    assert len(lines[0]) > len("satchel: ") + 10
    assert done.returncode == code
    return lines[0]
