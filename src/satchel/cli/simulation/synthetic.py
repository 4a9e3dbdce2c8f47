"""A made-up session that is the same on every machine, for seeing what policies do without a recording."""

from satchel.cli.simulation.trace import Part, Step, Trace

__all__ = ["SYNTHETIC", "synthetic_trace"]

SYSTEM, REQUEST, ANSWER, CALL, LARGEST_RESULT = 8_000, 300, 150, 80, 8_000
TURNS_OF_A_REQUEST = 10
# Its multiples, without their whole parts, are spread evenly over 0 to 1 wherever one stops.
GOLDEN = 0.6180339887498949

SYNTHETIC = (
    f"a system prompt of {SYSTEM:,} tokens; each turn answers with {ANSWER} tokens and a tool call of {CALL}, "
    f"whose result has 0 to {LARGEST_RESULT:,}, evenly spread; each {TURNS_OF_A_REQUEST}th turn begins with "
    f"{REQUEST} tokens from the user"
)


def synthetic_trace(turns: int) -> Trace:
    """The sizes are those of the default budget: its tier for the system prompt, what one result may have."""
    steps = []
    for turn in range(turns):
        parts = []
        if turn == 0:
            parts.append(Part(0, SYSTEM, standing=True))
        else:
            result = int(turn * GOLDEN % 1 * LARGEST_RESULT)
            parts += [Part(3 * turn, ANSWER), Part(3 * turn + 1, CALL), Part(3 * turn + 1, result)]
        if turn % TURNS_OF_A_REQUEST == 0:
            parts.append(Part(3 * turn + 2, REQUEST))
        steps.append(Step(tuple(parts), ANSWER + CALL))
    return Trace(tuple(steps))
