"""From candidates and a budget to what fits, with a receipt."""

from satchel.pack.accounting import receipt
from satchel.pack.choice import POLICIES, Policy
from satchel.pack.cut import Cut, truncate
from satchel.pack.item import Item, Level, Placed, marked
from satchel.pack.packing import PINS, Packing, Pins, pack
from satchel.pack.receipt import Entry, Receipt
from satchel.pack.sorting import sort_out

__all__ = [
    "PINS",
    "POLICIES",
    "Cut",
    "Entry",
    "Item",
    "Level",
    "Packing",
    "Pins",
    "Placed",
    "Policy",
    "Receipt",
    "marked",
    "pack",
    "receipt",
    "sort_out",
    "truncate",
]
