"""From candidates and a budget to what fits."""

from satchel.pack.fit import Fit, fit

__all__ = ["Fit", "fit"]
