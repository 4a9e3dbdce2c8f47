"""Memories that travel between stores as JSON lines."""

from satchel.transfer.files import write_atomically
from satchel.transfer.imports import Imported, Problem, import_lines
from satchel.transfer.lines import export_lines

__all__ = ["Imported", "Problem", "export_lines", "import_lines", "write_atomically"]
