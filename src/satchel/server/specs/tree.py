"""The files of a project: only looked at and read, and never outside of its root."""

import os
import stat
from collections.abc import Callable
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import NamedTuple

from satchel.errors import InputError
from satchel.fitting.listing import clean
from satchel.model.arguments import as_path
from satchel.model.surrogates import repair_surrogates

__all__ = ["MOST_BYTES", "Place", "Reading", "Stamp", "Tree", "shown"]

MOST_BYTES = 1_000_000
OUTSIDE = "outside the project, not read"

_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


class Stamp(NamedTuple):
    """What tells that a file has changed."""

    modified_ns: int
    changed_ns: int
    size: int


class Place(NamedTuple):
    """Something that stands at a path of the project; where it is not read, a `trouble` says why."""

    path: str
    """From the root on, with slashes, as the file system names it."""
    real: str = ""
    stamp: Stamp = Stamp(0, 0, 0)
    is_folder: bool = False
    trouble: str = ""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class Reading(NamedTuple):
    """The text of a file, its lines ended by plain newlines; or why there is none."""

    text: str
    trouble: str = ""


class Tree:
    """The files below a root. A link is followed where it stays inside, and reported where it leaves."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        given = as_path(root)
        self.root = Path(os.path.realpath(given))
        try:
            is_folder = self.root.is_dir()
        except OSError:
            is_folder = False
        if not is_folder:
            raise InputError(f"the project root {given!r} is not a folder")

    def folder(self, given: str) -> str:
        """The path of a folder, be it there or not, or an error where it is not one inside the project."""
        path = as_path(given)
        # Both ways of writing paths, on every system: what is harmless here would not be elsewhere.
        written = PureWindowsPath(path)
        if written.anchor or ".." in written.parts or not self._holds(os.path.realpath(self.root / path)):
            raise InputError(f"the folder {path!r} is not inside the project; give one that is, such as docs")
        return "/".join(PurePosixPath(path).parts)

    def look(self, path: str) -> Place | None:
        """What stands at a path; None where nothing does, or only a link that leads nowhere."""
        real = os.path.realpath(self.root / path)
        if not self._holds(real):
            return Place(path, trouble=OUTSIDE)
        try:
            found = os.lstat(real)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            return Place(path, trouble=_reason(error))
        stamp = Stamp(found.st_mtime_ns, found.st_ctime_ns, found.st_size)
        if stat.S_ISDIR(found.st_mode):
            return Place(path, real, stamp, is_folder=True)
        trouble = "" if stat.S_ISREG(found.st_mode) else "not a regular file, not read"
        return Place(path, real, stamp, trouble=trouble)

    def children(self, folder: Place, wanted: Callable[[str], bool]) -> list[Place]:
        """What stands in a folder under the wanted names, sorted; else the folder itself, with its trouble."""
        if not folder.is_folder:
            return [folder._replace(trouble=folder.trouble or "not a folder, not read")]
        try:
            names = [child.name for child in Path(folder.real).iterdir()]
        except OSError as error:
            return [folder._replace(trouble=_reason(error))]
        prefix = f"{folder.path}/" if folder.path else ""
        looked_at = (self.look(prefix + name) for name in sorted(names) if wanted(name))
        return [place for place in looked_at if place is not None]

    def read(self, place: Place) -> Reading:
        """The text of a file as it is now."""
        if place.is_folder:
            return Reading("", "a folder, not read")
        if place.trouble or place.stamp.size > MOST_BYTES:
            return Reading("", place.trouble or _too_large(place.stamp.size))
        try:
            content = _bytes(place.real)
        except OSError as error:
            return Reading("", _reason(error))
        if content is None:
            return Reading("", "not a regular file, not read")
        if len(content) > MOST_BYTES:
            return Reading("", _too_large(len(content)))
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            return Reading("", "not UTF-8, not read")
        return Reading(text.replace("\r\n", "\n").replace("\r", "\n"))

    def _holds(self, real: str) -> bool:
        return Path(real).is_relative_to(self.root)


def shown(path: str) -> str:
    """A path as a text of one line, whatever the file system allows in a name; the root itself is a dot."""
    return " ".join(clean(repair_surrogates(path)).split()) or "."


def _bytes(real: str) -> bytes | None:
    """As much of a regular file as may be read and one byte more; None if it is none any longer."""
    with open(os.open(real, _FLAGS), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return None
        return file.read(MOST_BYTES + 1)


def _too_large(size: int) -> str:
    return f"too large: {size / 1e6:.1f} MB, not read"


def _reason(error: OSError) -> str:
    return f"{(error.strerror or type(error).__name__).lower()}, not read"
