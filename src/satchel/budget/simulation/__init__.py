"""What a recorded session would have cost under several rules of eviction, with a prompt cache."""

from satchel.budget.simulation.policies import (
    STUB_TOKENS,
    KeepAll,
    KeepLast,
    OldestUntilItFits,
    Policy,
    Watermarks,
)
from satchel.budget.simulation.prices import Prices
from satchel.budget.simulation.replay import Outcome, replay
from satchel.budget.simulation.synthetic import SYNTHETIC, synthetic_trace
from satchel.budget.simulation.trace import IMAGE_TOKENS, Part, Step, Trace, trace_of

__all__ = [
    "IMAGE_TOKENS",
    "STUB_TOKENS",
    "SYNTHETIC",
    "KeepAll",
    "KeepLast",
    "OldestUntilItFits",
    "Outcome",
    "Part",
    "Policy",
    "Prices",
    "Step",
    "Trace",
    "Watermarks",
    "replay",
    "synthetic_trace",
    "trace_of",
]
