"""Pictures as SVG: where the tokens of a pack went, and what filled a session's context over time."""
