"""The PostgreSQL store, with pgvector, for many tenants."""
