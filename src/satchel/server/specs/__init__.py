"""A project's spec artifacts: which there are, what they say, and which of them a planned change may touch."""
