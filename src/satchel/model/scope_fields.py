"""The names of the fields of a scope, apart from `Scope` itself: options are read before that is loaded."""

__all__ = ["DEFAULT_ORG", "SCOPE_FIELDS", "SCOPE_HELP"]

SCOPE_FIELDS = ("org", "project", "user", "agent", "session")
DEFAULT_ORG = "default"
SCOPE_HELP = "Only in this {field}."
"""A line of help for a field of a scope."""
