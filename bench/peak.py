"""The peak memory of this process. Needs only the standard library."""

import resource
import sys
from pathlib import Path

__all__ = ["peak_bytes"]


def peak_bytes() -> int:
    """Return the peak resident memory of this process."""
    status = Path("/proc/self/status")
    if status.exists():
        # Not ru_maxrss: on Linux a process inherits its parent's value.
        return 1024 * int(status.read_text(encoding="ascii").partition("VmHWM:")[2].split()[0])
    unit = {"darwin": 1}.get(sys.platform, 1024)
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
