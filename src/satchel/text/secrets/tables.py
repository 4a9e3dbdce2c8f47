"""Tables with a column of passwords: comma-separated values, tabs, and Markdown."""

import re
from collections.abc import Iterator

from satchel.model.patterns import lazy_pattern
from satchel.text.secrets.values import is_attribute, is_code, is_label, is_opaque, is_placeholder, is_reference

__all__ = ["find_table_cells"]

# A header cell that names secrets, and nothing else.
_NOUNS = (
    "pass",
    "pwd",
    "pw",
    "secret",
    "token",
    "key",
    "kennwort",
    "contrase",
    "senha",
    "clave",
    "parola",
    "hasło",
)
_FOREIGN = ("пароль", "密码", "密碼", "パスワード", "비밀번호", "lösenord", "wachtwoord")
_COLUMN = lazy_pattern(
    r"(?:[\w.-]{1,24}[ _.-]){0,2}(?:password|passwd|passwort|passphrase|passcode|pass|pwd|pw|kennwort|secret"
    r"|(?:api|access|secret|private)[ _-]?key|(?:api|access|auth|bearer|refresh)[ _-]?token|token|mot de passe"
    r"|contraseña|contrasena|senha|clave|parola|hasło|пароль|密码|密碼|パスワード|비밀번호|lösenord|wachtwoord)"
    r"(?:[ _-]?(?:[0-9]|value|wert|plain))?"
)
_USER = lazy_pattern(
    r"user|login|e-?mail|account|host|url|server|benutzer|konto|usuario|utilisateur|账号|ユーザ|site"
)
_HEADER_CELL = lazy_pattern(r"[^\d\W][\w ./()#@*-]{0,31}|")
_RULE = lazy_pattern(r"[|:\- \t]{3,200}")
_LETTER_AND_DIGIT = lazy_pattern(r"[^\W\d_].*\d|\d.*[^\W\d_]")
_DELIMITERS = ("|", "\t", ";", ",")
_LONGEST_LINE = 2_000
_MOST_CELLS = 100
_CELLS = {
    delimiter: re.compile(
        rf'[ \t]*+(?:"((?:[^"\n]|"")*+)"[ \t]*+|([^{re.escape(delimiter)}\n]*+))(?:{re.escape(delimiter)}|\Z)'
    )
    for delimiter in ("|", ";", ",")
} | {"\t": re.compile(r'(?:"((?:[^"\n]|"")*+)"|([^\t\n]*+))(?:\t|\Z)')}


def find_table_cells(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the spans of the cells below a header such as `password`, in tables of any length."""
    if "\n" not in text or not any(delimiter in text for delimiter in _DELIMITERS):
        return
    lowered = text.lower()
    if len(lowered) != len(text):
        return
    done = 0
    for start, end in _header_lines(lowered):
        if start < done:
            continue
        header = lowered[start:end].strip("\r")
        delimiter = next((each for each in _DELIMITERS if each in header), "")
        columns = _secret_columns(header, delimiter) if delimiter else ()
        if columns:
            named = _USER.search(header) is not None and delimiter != "|"
            done, spans = _rows(text, end + 1, delimiter, columns, named=named)
            yield from ((*span, "password") for span in spans)


def _header_lines(lowered: str) -> Iterator[tuple[int, int]]:
    """Yield the lines that may be a header, each once, in order."""
    lines: set[tuple[int, int]] = set()
    nouns = _NOUNS if lowered.isascii() else _NOUNS + _FOREIGN
    for noun in [noun for noun in nouns if noun in lowered]:
        position = lowered.find(noun)
        while position >= 0:
            start = lowered.rfind("\n", max(0, position - _LONGEST_LINE), position) + 1
            end = lowered.find("\n", position, position + _LONGEST_LINE)
            if end < 0:
                break
            if start or position < _LONGEST_LINE:
                lines.add((start, end))
            position = lowered.find(noun, end)
    yield from sorted(lines)


def _secret_columns(header: str, delimiter: str) -> tuple[tuple[int, int], ...]:
    """Return the columns of secrets, as pairs of index and number of columns."""
    cells = [header[slice(*span)].strip(' *_`"') for span in _cells(header, 0, len(header), delimiter)]
    # Two named columns at least: a list with one word on each line has commas, too.
    if sum(map(bool, cells)) < 2 or not all(map(_HEADER_CELL.fullmatch, cells)):
        return ()
    return tuple((index, len(cells)) for index, cell in enumerate(cells) if _COLUMN.fullmatch(cell))


def _rows(
    text: str, start: int, delimiter: str, columns: tuple[tuple[int, int], ...], *, named: bool
) -> tuple[int, list[tuple[int, int]]]:
    spans: list[tuple[int, int]] = []
    while start < len(text):
        end = text.find("\n", start, start + _LONGEST_LINE)
        end = min(len(text), start + _LONGEST_LINE) if end < 0 else end
        if not (delimiter == "|" and _RULE.fullmatch(text[start:end].rstrip("\r"))):
            cells = _cells(text, start, end, delimiter)
            if len(cells) != columns[0][1]:
                break
            spans += [cells[index] for index, _ in columns if _is_secret(text[slice(*cells[index])], named=named)]
        start = end + 1
    return start, spans


def _cells(text: str, start: int, end: int, delimiter: str) -> list[tuple[int, int]]:
    """Return the spans of the cells of a line, without quotes and surrounding spaces."""
    line = text[start:end].rstrip("\r")
    offset = start
    if delimiter == "|":
        stripped = line.strip()
        offset += line.find("|") + 1 if stripped.startswith("|") else 0
        line = stripped.removeprefix("|").removesuffix("|")
    found: list[tuple[int, int]] = []
    position, more = 0, True
    while more and len(found) < _MOST_CELLS:
        cell = _CELLS[delimiter].match(line, position)
        if not cell:
            return []
        first, last = cell.span(1 if cell[1] is not None else 2)
        found.append((offset + first, offset + first + len(line[first:last].rstrip())))
        position, more = cell.end(), cell[0].endswith(delimiter)
    return found


def _is_secret(value: str, *, named: bool) -> bool:
    bare = value.strip("`*")
    if is_placeholder(bare) or is_reference(bare) or is_code(bare) or is_attribute(bare) or " " in bare:
        return False
    if len(bare) >= 6 and _LETTER_AND_DIGIT.search(bare) and not bare.startswith("v"):
        return True
    return is_opaque(bare) or (named and len(bare) >= 5 and not is_label(bare) and not bare.isdigit())
