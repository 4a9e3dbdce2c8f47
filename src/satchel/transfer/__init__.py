"""Memories that travel between stores as JSON lines."""

from satchel.transfer.files import check_target, write_atomically
from satchel.transfer.imports import Imported, Problem, import_lines
from satchel.transfer.lines import export_lines

__all__ = ["Imported", "Problem", "check_target", "export_lines", "import_lines", "write_atomically"]
