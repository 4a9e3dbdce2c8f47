"""All that orgs have in one store, brought to another and compared there."""

from satchel.moving.comparing import Compared, Tally
from satchel.moving.migration import Migrated, Trouble, migrate

__all__ = ["Compared", "Migrated", "Tally", "Trouble", "migrate"]
