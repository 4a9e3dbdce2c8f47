"""What can go wrong, and when to catch it.

SatchelError
├── InputError               the caller gave something that cannot be used
│   ├── ParameterError       a method has no parameter of this name
│   ├── BudgetError          a token budget that is negative, fractional or not a number
│   ├── UnknownIdError       nothing has this id, prefix or handle
│   ├── AmbiguousIdError     several memories match this id
│   └── ExpiredError         what a handle or cursor stands for is no longer kept
├── EmbedderError            texts could not be turned into vectors
└── StoreError               the store could not do what was asked
    ├── StoreFormatError     the file is not a Satchel store, or is damaged
    ├── StoreVersionError    the file was made by a newer Satchel
    ├── StoreReadOnlyError   a write on a store that can only be read
    ├── StoreFullError       the disk has no room; nothing was written
    ├── StoreBusyError       other processes held the store for longer than the timeout
    └── StoreUnreachableError   its server cannot be reached, or ended the connection
"""

__all__ = [
    "AmbiguousIdError",
    "BudgetError",
    "EmbedderError",
    "ExpiredError",
    "InputError",
    "ParameterError",
    "SatchelError",
    "StoreBusyError",
    "StoreError",
    "StoreFormatError",
    "StoreFullError",
    "StoreReadOnlyError",
    "StoreUnreachableError",
    "StoreVersionError",
    "UnknownIdError",
]


class SatchelError(Exception):
    """Catch this for everything Satchel raises on purpose."""


class InputError(SatchelError, ValueError):
    """Catch this to report bad input; nothing was changed."""


class ParameterError(InputError, TypeError):
    """Catch this, or TypeError, when keyword arguments come from a configuration; nothing was done."""


class BudgetError(InputError):
    """Catch this when a token budget comes from a user or a model."""


class UnknownIdError(InputError, KeyError):
    """Catch this when an id may be stale."""

    def __str__(self) -> str:  # KeyError would print the repr of the message
        return str(self.args[0])


class AmbiguousIdError(InputError):
    """Catch this to ask for a longer id."""


class ExpiredError(InputError):
    """Catch this to call a tool again: its result was kept for a time, which is over."""


class EmbedderError(SatchelError):
    """Catch this to go on without vectors: a model or server is missing or failed, the store is as it was."""


class StoreError(SatchelError):
    """Catch this to report a failing store; an acknowledged write is still there."""


class StoreFormatError(StoreError):
    """Catch this to offer a restore; the file was not touched."""


class StoreVersionError(StoreError):
    """Catch this to ask for an upgrade or a restart of Satchel; the file was not touched."""


class StoreReadOnlyError(StoreError):
    """Catch this where a store may be mounted read-only; reading goes on working."""


class StoreFullError(StoreError):
    """Catch this to ask for disk space; the write that failed left nothing behind."""


class StoreBusyError(StoreError):
    """Catch this to try again later; the write that failed left nothing behind."""


class StoreUnreachableError(StoreError):
    """Catch this to try again: its server may be back soon."""
