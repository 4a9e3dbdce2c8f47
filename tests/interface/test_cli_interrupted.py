"""Ctrl-C ends a command with exit code 130 and without a traceback, at whatever moment it comes."""

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sample import fill

from conftest import COMMAND, clean_environment

pytestmark = pytest.mark.slow

# From the start of the interpreter to the end of most of these commands.
MOMENTS = [0.02 + 0.015 * step for step in range(24)]
# While Python shuts down, the signal has its default effect again: it ends the process, silently.
ENDED = (0, 130, -signal.SIGINT)


def interrupted(arguments: list[str], folder: Path, after: float) -> subprocess.CompletedProcess[bytes]:
    with subprocess.Popen(
        [str(COMMAND), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=clean_environment(folder),
    ) as process:
        time.sleep(after)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


@pytest.mark.parametrize("command", ["--version", "list", "search rotation", "import -", "export"])
def test_ctrl_c_at_any_moment_prints_no_traceback(path: Path, tmp_path: Path, command: str):
    fill(path)
    for after in MOMENTS:
        done = interrupted(command.split(), tmp_path, after)
        if done.returncode in ENDED and b"Traceback" not in done.stderr:
            continue
        # Nobody can catch what interrupts Python itself, before our first line runs.
        ours = re.search(rb'satchel/cli|satchel/__main__.py", line \d+, in main', done.stderr)
        assert b"KeyboardInterrupt" in done.stderr, (after, done)
        assert not ours, (after, done.stderr.decode())


def test_ctrl_c_at_a_prompt_changes_nothing(path: Path, tmp_path: Path):
    fill(path)
    master, slave = pty.openpty()
    with subprocess.Popen(
        [str(COMMAND), "forget", "--purge", "--tag", "cron"],
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=clean_environment(tmp_path),
    ) as process:
        os.close(slave)
        assert process.stderr is not None
        asked = b""
        while b"?" not in asked:
            asked += os.read(process.stderr.fileno(), 4096)
        # Python drops one that comes while it flushes before a prompt; a person presses again.
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=1)
        out, err = process.communicate(timeout=60)
    os.close(master)
    assert (process.returncode, out) == (130, b"")
    assert b"Traceback" not in err


def test_ctrl_c_is_ignored_where_the_shell_said_so(path: Path, tmp_path: Path):
    """As in `satchel … &` of a script."""
    fill(path)
    done = subprocess.run(
        ["sh", "-c", f'trap "" INT; "{COMMAND}" list & pid=$!; sleep 0.05; kill -INT $pid; wait $pid'],
        capture_output=True,
        timeout=60,
        cwd=tmp_path,
        env=clean_environment(tmp_path),
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.count(b"\n") == 6


def test_the_module_and_the_command_start_the_same_way(tmp_path: Path):
    script = "import signal, satchel.__main__ as start; signal.raise_signal(signal.SIGINT)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, cwd=tmp_path)
    # Importing the module changes no handler: only `main` does.
    assert b"KeyboardInterrupt" in done.stderr
