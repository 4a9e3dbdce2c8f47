"""Access tokens: what they allow, how they look, and how they are kept."""

import hmac
import re
import secrets
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Literal, NamedTuple, get_args

import msgspec

from satchel.errors import InputError
from satchel.model.fields import DEFAULT_ORG, utc_now

__all__ = ["ACCESSES", "Access", "Caller", "Token", "caller_of", "fits", "new_token", "parsed"]

Access = Literal["read", "write", "metrics"]
ACCESSES: tuple[str, ...] = get_args(Access)

PREFIX = "satchel_"
ID_BYTES = 5
SECRET_BYTES = 32
_SHAPE = re.compile(rf"{PREFIX}([0-9a-f]{{{2 * ID_BYTES}}})_([A-Za-z0-9_-]{{43}})")
# Without a zone nobody can say when it is.
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]
# What a token of an unknown id is held against, so that its answer takes as long as any.
_NOBODY = bytes(32)


class Token(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token as it is kept: everything but the token itself."""

    id: str
    hash: str
    access: Access
    org: str | None = None
    project: str | None = None
    name: str | None = None
    created_at: _Moment
    expires_at: _Moment | None = None

    def __post_init__(self) -> None:
        if (self.org is None) != (self.access == "metrics"):
            raise InputError(f"token {self.id}: a token for {self.access} is {_BOUND[self.access == 'metrics']}")
        if len(bytes.fromhex(self.hash)) != len(_NOBODY):
            raise InputError(f"token {self.id}: its hash is not one of SHA-256")

    def expired(self, moment: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= moment


_BOUND = ("bound to an org; give one", "bound to none; leave the org out")


class Caller(NamedTuple):
    """Who asks: whose memories they may see, and whether they may change them."""

    id: str
    access: Access
    org: str | None
    project: str | None = None


def new_token(
    *,
    access: Access,
    org: str | None,
    project: str | None = None,
    name: str | None = None,
    expires_at: datetime | None = None,
) -> tuple[str, Token]:
    """A token to hand over, which is not kept, and what is kept of it."""
    identifier, secret = secrets.token_hex(ID_BYTES), secrets.token_urlsafe(SECRET_BYTES)
    kept = Token(
        id=identifier,
        hash=_hash(secret).hex(),
        access=access,
        org=org,
        project=project,
        name=name,
        created_at=utc_now(),
        expires_at=expires_at,
    )
    return f"{PREFIX}{identifier}_{secret}", kept


def parsed(given: str) -> tuple[str, str]:
    """The id and the secret of a token; of what is none, both are empty."""
    found = _SHAPE.fullmatch(given)
    return (found[1], found[2]) if found else ("", "")


def fits(secret: str, token: Token | None) -> bool:
    """Whether this is the token's secret, told in the same time whatever is given."""
    expected = _NOBODY if token is None else bytes.fromhex(token.hash)
    return hmac.compare_digest(_hash(secret), expected) and token is not None


def caller_of(token: Token) -> Caller:
    return Caller(token.id, token.access, token.org, token.project)


def nobody_in_particular(org: str | None) -> Caller:
    """Whoever asks a service without tokens, which listens on this machine alone."""
    return Caller("local", "write", org or DEFAULT_ORG)


def _hash(secret: str) -> bytes:
    # One round is enough: a slow hash protects passwords that can be guessed, and nobody guesses 256 random bits.
    return sha256(secret.encode()).digest()
