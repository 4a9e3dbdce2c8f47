"""What is printed of a change to a client's file: the difference, and remarks on what to know."""

import json
from collections.abc import Iterable

from satchel.cli.clients.client import Client
from satchel.cli.clients.configuration import Change
from satchel.cli.clients.difference import difference
from satchel.cli.output import note, print_text

__all__ = ["note_backup", "note_reading", "print_difference"]


def print_difference(change: Change, secrets: Iterable[str] = ()) -> None:
    """What would change, without the secrets: those that look like some, and those that are known."""
    from satchel.text.redact import redact

    hidden = sorted({secret for secret in secrets if secret}, key=len, reverse=True)

    def masked(text: str) -> str:
        for secret in hidden:
            text = text.replace(secret, "[masked]")
        return redact(text).text

    if change.changes:
        texts = (content.decode("utf-8-sig") for content in (change.before or b"", change.after))
        print_text(difference(*texts, path=str(change.path), mask=masked))


def note_backup(change: Change) -> None:
    if change.backup is not None:
        note(f"the file as it was: {change.backup}")


def note_reading(client: Client, change: Change, *, local: bool) -> None:
    """What a client makes of its changed file."""
    if not client.comments and not _is_plain(change.after):
        note(f"the file has comments or trailing commas, which {client.title} may not read")
    if local and client.project_remark:
        note(client.project_remark)
    note(f"restart {client.title} to use it")


def _is_plain(content: bytes) -> bool:
    try:
        json.loads(content)
    except ValueError:
        return False
    except RecursionError:
        return True
    return True
