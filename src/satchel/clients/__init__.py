"""MCP clients and their configuration files: the entry that starts Satchel, put in and taken out."""

from satchel.clients.client import CLIENTS, GENERIC, Client
from satchel.clients.configuration import Change, carry_out, planned
from satchel.clients.detour import GATEWAY, Detour, Led, Returned, lead_back, lead_through
from satchel.clients.difference import difference
from satchel.clients.entry import Edited, Entry, check_name, satchel_entry
from satchel.clients.holding import holding_path
from satchel.clients.places import Surroundings, surroundings

__all__ = [
    "CLIENTS",
    "GATEWAY",
    "GENERIC",
    "Change",
    "Client",
    "Detour",
    "Edited",
    "Entry",
    "Led",
    "Returned",
    "Surroundings",
    "carry_out",
    "check_name",
    "difference",
    "holding_path",
    "lead_back",
    "lead_through",
    "planned",
    "satchel_entry",
    "surroundings",
]
