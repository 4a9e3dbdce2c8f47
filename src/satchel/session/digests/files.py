"""A list of files: how many, of which types, in which folders."""

import re
from collections import Counter
from collections.abc import Sequence

from satchel.model.patterns import lazy_pattern
from satchel.session.digests.base import Evidence, Rank, Row, Shape, Source, counted, excerpt
from satchel.session.digests.errors import error_rows, tool_errors

__all__ = ["FileList", "has_extension", "is_path"]

# A line of `ls -l` or `tree`, or one marked as a file or a folder.
_LISTED = lazy_pattern(
    r"[-dlbcps][-rwxsStT]{9}[.+@]?\s+(?:\d+\s+)?(?P<long>\S.*)"
    r"|(?:[│\s]|\|(?!--))*+[├└|`](?:──|--)\s?(?P<tree>\S.*)"
    r"|\[(?:FILE|DIR)\]\s+(?P<marked>\S.*)"
)
_PATH_LINE = lazy_pattern(r"(?:\.{0,2}/|~/|[A-Za-z]:[\\/])?[^\s:;{}<>\"'|*?=][^:;{}<>\"'|*?=\n]{0,300}")
_ANY_EXTENSION = lazy_pattern(r"\.[A-Za-z0-9_]{1,10}$")
_SENTENCE = lazy_pattern(r"[a-z]{2,}[,.]? [a-z]{2,} [a-z]{2,}|[.!?]$")
_LONG_NAME = lazy_pattern(
    r".*?(?:\d{4}-\d\d-\d\d[ T]\d\d:\d\d\S*|[A-Z][a-z]{2} +\d{1,2} +(?:\d\d:\d\d|\d{4}))"
    r"(?: [+-]\d{4})? (?P<name>.+)"
)
_TRAILER = lazy_pattern(r"\s+\(?\d[\d.,]*\s?(?:[kKMG]i?B?|B|bytes|lines)?\)?$")
_EXTENSION = lazy_pattern(r"[^/\\.]\.([A-Za-z0-9_]{1,10})$")


class FileList(Shape):
    """Names of files and folders, one per line."""

    name = "files"
    tool_words = dict.fromkeys(("list", "glob", "ls", "find", "tree", "files", "dir", "directory", "folder"), 5)
    prefilter = re.compile(rf"{_LISTED.pattern}|{_PATH_LINE.pattern}\s*$")

    @classmethod
    def certain(cls, evidence: Evidence) -> type[Shape] | None:
        return cls if evidence.share(_LISTED) > 0.6 else None

    @classmethod
    def likely(cls, evidence: Evidence) -> type[Shape] | None:
        if evidence.hint == "file" or len(evidence.lines) < 2:
            return None
        return cls if sum(map(is_path, evidence.lines)) / len(evidence.lines) > 0.8 else None

    @classmethod
    def suggested(cls, evidence: Evidence) -> type[Shape] | None:
        prose = sum(1 for line in evidence.lines if len(line) > 250 or _SENTENCE.search(line))
        return cls if prose < 0.3 * len(evidence.lines) else None

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._names = _names(source.sample)

    def title(self) -> str:
        source = self.source
        folders = sum(1 for name in self._names if name.endswith("/"))
        plain = not folders and len(self._names) == sum(1 for line in source.sample if line.strip())
        number = counted(source.filled_lines) if plain else source.about(len(self._names) - folders)
        besides = f", {source.about(folders)} folder{'' if folders == 1 else 's'}" if folders else ""
        place = f" in {excerpt(source.path, 150)}" if source.path else ""
        return f"{number} file{'' if number == '1' else 's'}{besides}{place}"

    def rows(self) -> list[Row]:
        source, names = self.source, self._names
        types = Counter(found[1].lower() for name in names if (found := _EXTENSION.search(name)))
        folders = _folders(names)
        made = error_rows(tool_errors(source))
        if types:
            parts = [f".{kind} {source.about(number)}" for kind, number in types.most_common(8)]
            made.append(Row(Rank.NUMBER, parts, "Types: ", 0.3, more=max(0, len(types) - 8), exact=source.whole))
        if not folders:
            folders.update(name.rstrip("/") for name in names if name.endswith("/"))
        if folders:
            parts = [f"{excerpt(folder, 60)}/ {source.about(number)}" for folder, number in folders.most_common(8)]
            made.append(Row(Rank.PATH, parts, "Folders: ", 0.5, more=max(0, len(folders) - 8), exact=source.whole))
        return [*made, Row(Rank.PROSE, [excerpt(name, 80) for name in names[:12]], "First: ")]


def is_path(line: str) -> bool:
    """Whether a line consists of a path only."""
    bare = line.rstrip()
    return _PATH_LINE.fullmatch(bare) is not None and (
        (" " not in bare and ("/" in line or "\\" in line))
        or (has_extension(bare) and line.count(" ") < 4 and not bare.endswith("."))
    )


def has_extension(path: str) -> bool:
    return _ANY_EXTENSION.search(path) is not None


def _names(lines: Sequence[str]) -> list[str]:
    """Return the paths in the lines; folders end with a slash."""
    if any(_LISTED.match(line) for line in lines[:10]):
        listed = [_listed_name(found) for line in lines if (found := _LISTED.match(line))]
        return [name for name in listed if name not in ("./", "../")]
    # Messages of the tool and headings of folders contain a colon.
    names = [line.strip() for line in lines if ": " not in line and not line.endswith(":")]
    return [_bare(name) if name[-1] in ")Bs" or "\t" in name else name for name in names if name]


def _bare(name: str) -> str:
    """Return a name without the size or count next to it."""
    fields = name.split("\t")
    return _TRAILER.sub("", next((field for field in fields if not field[:1].isdigit() or "/" in field), fields[0]))


def _listed_name(found: re.Match[str]) -> str:
    name = found["long"] or found["tree"] or found["marked"]
    if found["long"] and (dated := _LONG_NAME.match(name)):
        name = dated["name"].partition(" -> ")[0]
    is_folder = found[0].startswith(("d", "[DIR]")) and not name.endswith("/")
    return f"{name}/" if is_folder else name


def _folders(names: Sequence[str]) -> Counter[str]:
    """Count the paths in each folder, two levels below their common parent."""
    parents = [name.replace("\\", "/").rstrip("/").rpartition("/")[0] for name in names]
    steps = [parent.split("/") for parent in parents if parent]
    first, last = min(steps, default=[]), max(steps, default=[])
    pairs = enumerate(zip(first, last, strict=False))
    common = next((place for place, (one, other) in pairs if one != other), min(len(first), len(last)))
    return Counter("/".join(step[: common + 2]) for step in steps)
