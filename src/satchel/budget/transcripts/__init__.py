"""Recorded transcripts as entries by turn: Claude Code's JSON lines, OpenAI's and Anthropic's messages."""

from satchel.budget.transcripts.assembly import Entry, Transcript
from satchel.budget.transcripts.reading import parse_transcript

__all__ = ["Entry", "Transcript", "parse_transcript"]
