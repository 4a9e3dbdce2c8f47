"""The shared store: PostgreSQL with pgvector, for many tenants."""
