"""Memories that travel between stores as JSON lines."""
