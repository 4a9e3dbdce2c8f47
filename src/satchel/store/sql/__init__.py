"""What stores in SQL databases have in common; each says in its own SQL what differs."""
