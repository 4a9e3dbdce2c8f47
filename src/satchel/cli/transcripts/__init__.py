"""Recorded transcripts as entries by turn: Claude Code's JSON lines, OpenAI's and Anthropic's messages."""
