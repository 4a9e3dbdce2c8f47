"""OAuth for the service: access tokens (JWT) of a configured issuer, and the metadata that tells clients about it.

The service is a resource server as the MCP specification describes it. It publishes metadata (RFC 9728), accepts
only tokens issued for it (audience, RFC 8707), and checks them with the issuer's published keys. It issues no
tokens. Imported only if an issuer is configured.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from http import HTTPStatus
from typing import Any, NoReturn
from urllib.parse import urlsplit

import anyio
import httpx2
import jwt
import msgspec
from mcp.client.auth.utils import build_oauth_authorization_server_metadata_discovery_urls
from mcp.server.auth.routes import build_resource_metadata_url
from mcp.shared.auth import ProtectedResourceMetadata
from pydantic import AnyHttpUrl

from satchel.errors import InputError, SatchelError
from satchel.model.memory import as_name
from satchel.server.http.access import OAUTH_ID, Access, Caller
from satchel.server.http.problems import RefusedError
from satchel.server.listening import Address

__all__ = ["OAuth", "OAuthSettings", "SigningKeys"]

# Signatures with a public key only: with a shared secret (HS256), the public key could be used to forge a token.
ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
LEEWAY_SECONDS = 30
LONGEST_TOKEN = 16 * 1024
FETCH_SECONDS = 5.0
MOST_BYTES = 512 * 1024
MOST_KEYS = 100
FRESH_SECONDS = 600.0
RETRY_SECONDS = 10.0
STALE_SECONDS = 24 * 3600.0
METADATA_PATH = "/.well-known/oauth-protected-resource"

_log = logging.getLogger(__name__)


class OAuthSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which access tokens to accept, and what their claims mean."""

    issuer: str
    resource: str
    """The public URL of `/mcp`, which clients name when they ask the issuer for a token."""
    audiences: tuple[str, ...] = ()
    """Accepted values of `aud`; by default the resource."""
    jwks_url: str | None = None
    """Where the issuer's keys are; by default its metadata says so."""
    org_claim: str = "org"
    project_claim: str | None = None
    user_claim: str | None = None
    read_scope: str = "satchel:read"
    write_scope: str = "satchel:write"

    def __post_init__(self) -> None:
        for option, url in (
            ("--oauth-issuer", self.issuer),
            ("--oauth-resource", self.resource),
            ("--oauth-jwks", self.jwks_url),
        ):
            if url is not None:
                _check_url(option, url)
        for option, scope in (("--oauth-read-scope", self.read_scope), ("--oauth-write-scope", self.write_scope)):
            if not scope or not scope.isascii() or not scope.isprintable() or any(each in scope for each in ' "\\'):
                raise InputError(f"{option} {scope!r} is not a scope; give one word, such as satchel:read")

    @property
    def host(self) -> str:
        """The host name that clients use."""
        return urlsplit(self.resource).hostname or ""


def _check_url(option: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https") or "@" in parts.netloc or parts.query or parts.fragment:
        raise InputError(f"{option} {url!r} is not a URL such as https://login.example/realm")
    if parts.scheme == "http" and not Address((host, 0)).is_loopback:
        raise InputError(f"{option} {url!r} must start with https://; http:// is accepted for this machine only")


class OAuth:
    """Turns access tokens into callers, and describes the service to clients."""

    def __init__(self, settings: OAuthSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._keys = SigningKeys(settings, clock=clock)
        self._metadata_url = str(build_resource_metadata_url(AnyHttpUrl(settings.resource)))
        self._scopes = (settings.read_scope, settings.write_scope)
        self._metadata = ProtectedResourceMetadata.model_validate(
            {
                "resource": settings.resource,
                "authorization_servers": [settings.issuer],
                "scopes_supported": self._scopes,
                "resource_name": "Satchel",
            }
        )
        base = settings.resource.rstrip("/")
        self._audiences = settings.audiences or (base, f"{base}/")
        self._decoder = jwt.PyJWT(
            {"require": ["exp", "iss", "aud", "sub"], "enforce_minimum_key_length": True, "verify_iat": False}
        )

    def metadata_at(self, path: str) -> bytes | None:
        """Return the metadata document if the path is one where clients look for it, else None."""
        known = (METADATA_PATH, f"{METADATA_PATH}/mcp", urlsplit(self._metadata_url).path)
        return self._metadata.model_dump_json(exclude_none=True).encode() if path in known else None

    async def caller(self, token: str) -> Caller:
        """Return the caller for an access token; raises `RefusedError` that says why there is none."""
        key = await self._key_for(token)
        try:
            claims = self._decoder.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                audience=self._audiences,
                issuer=self._settings.issuer,
                leeway=LEEWAY_SECONDS,
            )
        except jwt.PyJWTError as error:
            self._invalid(_REASONS.get(type(error), "the token is not valid"))
        return self._caller_of(claims)

    def challenge(self, error: str | None = None, description: str = "") -> str:
        """Return a WWW-Authenticate header that leads a client to the metadata."""
        parts = [f'error="{error}"', f'error_description="{description}"'] if error else []
        parts += [f'scope="{" ".join(self._scopes)}"', f'resource_metadata="{self._metadata_url}"']
        return f'Bearer realm="satchel", {", ".join(parts)}'

    def scope_for(self, needed: Access) -> str:
        """Return the scope that grants an access."""
        return self._settings.write_scope if needed == "write" else self._settings.read_scope

    def insufficient(self, needed: str) -> RefusedError:
        """Return the refusal of a token whose scopes do not allow a request."""
        description = f"this needs the scope {needed}"
        return RefusedError(
            HTTPStatus.FORBIDDEN,
            "not-allowed",
            f"the token does not allow this: {description}",
            WWW_Authenticate=self.challenge("insufficient_scope", description),
        )

    async def _key_for(self, token: str) -> jwt.PyJWK:
        if len(token) > LONGEST_TOKEN:
            self._invalid("the token is too long")
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError:
            self._invalid("the token is neither a token of this service nor a JWT")
        algorithm = header.get("alg")
        if algorithm not in ALGORITHMS:
            self._invalid("the signature algorithm is not accepted")
        try:
            key = await self._keys.find(header.get("kid"), algorithm)
        except UnavailableKeysError as error:
            raise RefusedError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "issuer-unreachable",
                str(error),
                Retry_After=str(int(RETRY_SECONDS)),
            ) from error
        if key is None:
            self._invalid("the issuer has no such key")
        return key

    def _caller_of(self, claims: Mapping[str, Any]) -> Caller:
        settings = self._settings
        granted = _scopes(claims)
        access: Access
        if settings.write_scope in granted:
            access = "write"
        elif settings.read_scope in granted:
            access = "read"
        else:
            raise self.insufficient(settings.read_scope)
        named = {
            "org": settings.org_claim,
            "project": settings.project_claim,
            "user": settings.user_claim,
        }
        bound = {field: self._name(field, claim, claims) for field, claim in named.items() if claim is not None}
        subject = f"{claims['iss']}\n{claims['sub']}\n{claims.get('client_id') or claims.get('azp') or ''}"
        return Caller(OAUTH_ID + sha256(subject.encode()).hexdigest()[:20], access, **bound)

    def _name(self, field: str, claim: str, claims: Mapping[str, Any]) -> str:
        value = claims.get(claim)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        try:
            return as_name(field, value)
        except InputError:
            # Without it the token would open more than it should.
            raise RefusedError(
                HTTPStatus.FORBIDDEN,
                "not-allowed",
                f"the token has no usable claim {claim!r}, which names its {field}",
            ) from None

    def _invalid(self, description: str) -> NoReturn:
        raise RefusedError(
            HTTPStatus.UNAUTHORIZED,
            "unauthorized",
            description,
            WWW_Authenticate=self.challenge("invalid_token", description),
        )


# What a client may know about a refused token; the rest would only help an attacker.
_REASONS: dict[type[jwt.PyJWTError], str] = {
    jwt.ExpiredSignatureError: "the token has expired",
    jwt.ImmatureSignatureError: "the token is not valid yet",
    jwt.InvalidAudienceError: "the token was issued for another service",
    jwt.InvalidIssuerError: "the token is of another issuer",
    jwt.MissingRequiredClaimError: "the token needs the claims exp, iss, aud and sub",
}


def _scopes(claims: Mapping[str, Any]) -> set[str]:
    """Return the scopes of a token: a text (RFC 9068), or a list as some issuers write it."""
    given = claims.get("scope", claims.get("scp"))
    if isinstance(given, str):
        return set(given.split())
    return {each for each in given if isinstance(each, str)} if isinstance(given, list) else set()


# The issuer's keys


class UnavailableKeysError(SatchelError):
    """Raised when there are no keys to check a token with, because the issuer cannot be reached."""


class SigningKeys:
    """The issuer's public keys, fetched when needed and kept.

    Keys older than `FRESH_SECONDS` are fetched again in the background. A token with an unknown key makes the
    service fetch them at once, but not more often than every `RETRY_SECONDS`, however many such tokens come. If the
    issuer does not answer, known keys stay in use for `STALE_SECONDS`.
    """

    def __init__(self, settings: OAuthSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._keys: tuple[Mapping[str, Any], ...] = ()
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._fetching: asyncio.Task[None] | None = None

    async def find(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        """Return the key with this id, or the only one if the token names none; None if there is no such key."""
        if self._age > STALE_SECONDS:
            self._keys = ()
            await self._fetch()
        elif self._age > FRESH_SECONDS:
            self._begin()
        if (found := self._chosen(kid, algorithm)) is None and self._keys:
            await self._fetch()
            found = self._chosen(kid, algorithm)
        if not self._keys:
            raise UnavailableKeysError(
                "the issuer's keys cannot be fetched, so its tokens cannot be checked; try again later"
            )
        return found

    @property
    def _age(self) -> float:
        return self._clock() - self._fetched_at

    def _chosen(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        fitting = [key for key in self._keys if _fits(key, algorithm) and kid in (None, key.get("kid"))]
        if len(fitting) != 1:
            return None
        try:
            return jwt.PyJWK(dict(fitting[0]), algorithm)
        except jwt.PyJWTError:
            return None

    async def _fetch(self) -> None:
        """Wait for the fetch that is under way, or for a new one if the last is long enough ago."""
        if (task := self._begin()) is not None:
            # The client of one request may go; others wait for the same fetch.
            await asyncio.shield(task)

    def _begin(self) -> asyncio.Task[None] | None:
        if self._fetching is None and self._clock() - self._tried_at >= RETRY_SECONDS:
            self._tried_at = self._clock()
            self._fetching = asyncio.create_task(self._fetched())
        return self._fetching

    async def _fetched(self) -> None:
        try:
            with anyio.fail_after(FETCH_SECONDS):
                keys = await self._read_keys()
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, RecursionError, InputError) as error:
            _log.warning(
                "the keys of %s cannot be fetched: %s", self._settings.issuer, error or type(error).__name__
            )
            return
        finally:
            self._fetching = None
        self._keys, self._fetched_at = keys, self._clock()

    async def _read_keys(self) -> tuple[Mapping[str, Any], ...]:
        async with httpx2.AsyncClient(timeout=FETCH_SECONDS, follow_redirects=False) as client:
            address = self._settings.jwks_url or await self._jwks_url(client)
            document = await _read_json(client, address)
        keys = document.get("keys")
        if not isinstance(keys, list) or len(keys) > MOST_KEYS:
            raise ValueError(f"{address} is not a key set of at most {MOST_KEYS} keys")
        usable = tuple(key for key in keys if isinstance(key, dict) and key.get("kty") in _KEY_TYPES)
        if not usable:
            raise ValueError(f"{address} has no usable key")
        return usable

    async def _jwks_url(self, client: httpx2.AsyncClient) -> str:
        """Return where the issuer's metadata says that its keys are (RFC 8414, OpenID Connect Discovery)."""
        issuer = self._settings.issuer
        missing: Exception | None = None
        for url in build_oauth_authorization_server_metadata_discovery_urls(issuer, issuer):
            try:
                metadata = await _read_json(client, url)
            except (httpx2.HTTPStatusError, ValueError) as error:
                missing = error
                continue
            if metadata.get("issuer") != issuer:
                raise ValueError(f"{url} is the metadata of the issuer {str(metadata.get('issuer'))[:200]!r}")
            jwks = metadata.get("jwks_uri")
            if isinstance(jwks, str):
                _check_url("jwks_uri", jwks)
                return jwks
            missing = ValueError(f"{url} names no jwks_uri")
        raise missing or ValueError(f"{issuer} has no metadata")


_KEY_TYPES = {"RSA": ("RS", "PS"), "EC": ("ES",), "OKP": ("Ed",)}


def _fits(key: Mapping[str, Any], algorithm: str) -> bool:
    """Whether a key may check signatures of this algorithm."""
    return (
        algorithm.startswith(_KEY_TYPES.get(key.get("kty", ""), ("?",)))
        and key.get("alg", algorithm) == algorithm
        and key.get("use", "sig") == "sig"
    )


async def _read_json(client: httpx2.AsyncClient, url: str) -> dict[str, Any]:
    """Return the JSON object at a URL, of bounded size."""
    body = bytearray()
    async with client.stream("GET", url, headers={"Accept": "application/json"}) as answer:
        answer.raise_for_status()
        async for chunk in answer.aiter_bytes():
            body += chunk
            if len(body) > MOST_BYTES:
                raise ValueError(f"{url} is larger than {MOST_BYTES:,} bytes")
    document = msgspec.json.decode(body)
    if not isinstance(document, dict):
        raise ValueError(f"{url} is not a JSON object")
    return document
