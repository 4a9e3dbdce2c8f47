"""Counting tokens: exact vocabularies, a bounded estimate for Claude, and two rules of thumb."""
