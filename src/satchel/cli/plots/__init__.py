"""SVG plots: how a pack uses its token budget, and how a session's context fills over time."""
