"""From candidates and a budget to what fits."""

from satchel.pack.choose import Item, choose
from satchel.pack.fit import Fit, fit, fit_proposed

__all__ = ["Fit", "Item", "choose", "fit", "fit_proposed"]
