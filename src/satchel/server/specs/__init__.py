"""Spec documents of a project: which exist, what they contain, and which a planned change may affect."""
