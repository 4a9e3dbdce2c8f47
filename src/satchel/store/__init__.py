"""Where memories are kept: the store, SQLite and PostgreSQL behind it, migration between them.

A caller opens a store by its location (`locations`), holds a transaction (`store`), and hands it to the functions
of `memories` and `index`. SQL and migrations are files: `statements.sql`, `sqlite/sql`, `postgres/sql`. Drivers are
imported only here.
"""
