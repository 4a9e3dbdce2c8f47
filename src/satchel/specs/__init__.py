"""A project's spec artifacts: which there are, what stands in them, and what of it a planned change may touch."""

from satchel.specs.artifacts import STAGES
from satchel.specs.check import spec_check
from satchel.specs.context import spec_context
from satchel.specs.specs import Specs

__all__ = ["STAGES", "Specs", "spec_check", "spec_context"]
