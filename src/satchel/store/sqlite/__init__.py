"""The embedded store: SQLite through APSW, which brings its own current SQLite."""
