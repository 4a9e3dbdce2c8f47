"""Named statements with all their parts filled in, for the tests of both databases."""

import string
from collections.abc import Sequence

from satchel.model.filters import Filter
from satchel.model.memory import Scope
from satchel.store.database import Dialect, Statements
from satchel.store.rows import filter_sql, scope_sql
from satchel.store.sessions import ENTRY_COLUMNS, ENTRY_FIELDS, SESSION_COLUMNS, SESSION_FIELDS, needed

__all__ = ["filled"]


def filled(
    statements: Statements, dialect: Dialect, name: str, where: Filter | str, *, columns: Sequence[str] = ()
) -> str:
    """Return a named statement. `columns` are those of a new memory, and `where` is a filter or its SQL."""
    parts = {
        "where": where if isinstance(where, str) else filter_sql(dialect, where)[0],
        "where_target": filter_sql(dialect, where if isinstance(where, Filter) else Filter(), alias="o")[0],
        "assignments": f"text = {dialect.value('text')}",
        "column": "kind",
        "order": "m.at DESC",
        "codes": "code_1",
        "vectors": "vector_1",
        "generation": "1",
        "memories": "memory m",
        "values": f"({dialect.values(('seq', *(column.strip(chr(34)) for column in columns)))})",
        "near": "source",
        "far": "target",
        "needed": needed(dialect),
        "score": "1.0",
        "matching": "true",
        "same": "m.session = t.thread AND m.session <> ''",
        "reach": "2",
        "bits": "8",
        "tenant": "'acme'",
    }
    if name.startswith(("session", "entr")):
        of_session = name.startswith("session")
        fields = SESSION_FIELDS if of_session else ("org", "session", *ENTRY_FIELDS)
        parts["columns_of"] = SESSION_COLUMNS if of_session else ENTRY_COLUMNS
        parts |= {"marks": dialect.values(fields), "assignments": f"turn = {dialect.value('turn')}"}
        parts["where"] = scope_sql(dialect, Scope(project="p"))[0]
    holes = {field for _, field, _, _ in string.Formatter().parse(statements.named[name]) if field}
    return statements.statement(name, **{field: parts[field] for field in holes - statements.fixed.keys()})
