"""MCP clients and their configuration files: the entry that starts Satchel, put in and taken out."""

from satchel.clients.client import CLIENTS, GENERIC, Client
from satchel.clients.configuration import Change, carry_out, planned
from satchel.clients.difference import difference
from satchel.clients.entry import Edited, Entry, check_name, satchel_entry
from satchel.clients.places import Surroundings, surroundings

__all__ = [
    "CLIENTS",
    "GENERIC",
    "Change",
    "Client",
    "Edited",
    "Entry",
    "Surroundings",
    "carry_out",
    "check_name",
    "difference",
    "planned",
    "satchel_entry",
    "surroundings",
]
