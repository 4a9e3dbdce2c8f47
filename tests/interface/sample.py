"""A small store to run commands on, and its content as bytes."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import satchel
from satchel import Draft, Memory

__all__ = ["START", "contents", "fill"]

START = datetime(2026, 2, 10, 9, 30, tzinfo=UTC)


def fill(path: Path) -> list[Memory]:
    """Six memories an hour apart, oldest first."""
    hours = [START + timedelta(hours=number) for number in range(6)]
    drafts = [
        Draft("We rotate signing keys.", title="Key rotation", kind="decision", tags=["auth"], at=hours[0]),
        Draft("The rotation job failed on leap day.", kind="error", tags=["auth", "cron"], at=hours[1]),
        Draft("The job asks the calendar for the rotation.", kind="fix", tags=["cron"], at=hours[2]),
        Draft("Ana prefers tabs.", kind="preference", user="ana", at=hours[3]),
        Draft("長い文章の中に記憶という言葉があります。", kind="fact", tier="conversation", at=hours[4]),
        Draft("Chapter two needs a rotation of figures.", kind="todo", project="thesis", at=hours[5]),
    ]
    with satchel.open(path) as bag:
        return bag.add_many(drafts)


def contents(path: Path) -> bytes:
    """Everything a store holds, as its export."""
    with satchel.open(path, create=False) as bag:
        return b"".join(bag.export())
