"""The context block as markdown."""

from satchel.fitting.outline import Ends, Outline

__all__ = ["MARKDOWN"]

MARKDOWN = Outline(
    "markdown",
    block=Ends("## Memory Context\n"),
    sections={
        "working": Ends("\n### Working Memory\n"),
        "conversation": Ends("\n### Conversation\n"),
        "knowledge": Ends("\n### Knowledge\n"),
    },
)
