"""Where memories are kept: the contract of a store, SQLite and PostgreSQL behind it, migration between them.

SQL and migrations are files in `sqlite/sql`, `postgres/sql` and `sql`. Drivers are imported only here.
"""
