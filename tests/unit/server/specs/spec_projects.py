"""Projects with specs: a complete invented one, and those that a test writes."""

from collections.abc import Mapping
from pathlib import Path

from satchel import counter

__all__ = ["KILN", "count", "write"]

KILN = Path(__file__).with_name("kiln")

count = counter("chars/4").count


def write(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Put files into a project; the root of it."""
    for path, content in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    return root
