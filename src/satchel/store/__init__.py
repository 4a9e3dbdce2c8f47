"""Storage: one interface over SQLite and PostgreSQL, and migration between them.

A caller opens a store by its location (`locations`), begins a transaction (`store`), and passes it to the functions
of `memories` and `index`. SQL and schema migrations are files: `statements.sql`, `sqlite/sql`, `postgres/sql`.
Database drivers are imported only here.
"""
