"""The context block between tags, for a system prompt."""

from satchel.fitting.outline import Ends, Outline

__all__ = ["SYSTEM_PROMPT"]

SYSTEM_PROMPT = Outline(
    "system_prompt",
    block=Ends("<memory>\n", "</memory>\n"),
    sections={
        "working": Ends("<working>\n", "</working>\n"),
        "conversation": Ends("<conversation>\n", "</conversation>\n"),
        "knowledge": Ends("<knowledge>\n", "</knowledge>\n"),
    },
)
