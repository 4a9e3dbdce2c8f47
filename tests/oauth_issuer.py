"""A small OAuth issuer on loopback: discovery, keys that rotate, and tokens for clients with a secret."""

import contextlib
import http.server
import json
import threading
import time
from collections.abc import Iterator
from typing import Any, Literal
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

__all__ = ["Issuer", "running_issuer"]

Algorithm = Literal["RS256", "PS256", "ES256", "EdDSA"]
_FAMILIES: dict[str, Any] = {
    "RS256": jwt.algorithms.RSAAlgorithm,
    "PS256": jwt.algorithms.RSAAlgorithm,
    "ES256": jwt.algorithms.ECAlgorithm,
    "EdDSA": jwt.algorithms.OKPAlgorithm,
}


def new_key(algorithm: Algorithm) -> Any:
    if algorithm == "ES256":
        return ec.generate_private_key(ec.SECP256R1())
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(65537, 2048)


class Issuer:
    """The issuer's keys, the tokens it signs, and how often its keys were fetched."""

    def __init__(self) -> None:
        self.url = ""
        self.keys: dict[str, tuple[Algorithm, Any]] = {}
        self.fetches = 0
        self.asked: list[dict[str, list[str]]] = []
        self.paths: dict[str, Any] = {}
        """Documents at other paths than the usual, or instead of them; None is 404."""
        self.grants: dict[str, Any] = {"org": "acme", "scope": "satchel:read satchel:write"}

    def add_key(self, kid: str, algorithm: Algorithm = "RS256") -> None:
        self.keys[kid] = algorithm, new_key(algorithm)

    def token(self, kid: str = "one", *, without: tuple[str, ...] = (), headers: Any = None, **claims: Any) -> str:
        algorithm, key = self.keys[kid]
        return jwt.encode(self.claims(without=without, **claims), key, algorithm, {"kid": kid} | (headers or {}))

    def claims(self, *, without: tuple[str, ...] = (), **claims: Any) -> dict[str, Any]:
        now = int(time.time())
        usual = {"iss": self.url, "sub": "ana", "iat": now, "exp": now + 300, **self.grants}
        return {name: value for name, value in (usual | claims).items() if name not in without}

    def jwks(self) -> dict[str, Any]:
        public = (
            {"kid": kid, "use": "sig", **_FAMILIES[algorithm].to_jwk(key.public_key(), as_dict=True)}
            for kid, (algorithm, key) in self.keys.items()
        )
        return {"keys": [{name: each[name] for name in each if name != "key_ops"} for each in public]}

    def document(self, path: str) -> Any:
        if path in self.paths:
            return self.paths[path]
        if path == "/.well-known/oauth-authorization-server":
            return {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/keys",
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "response_types_supported": ["code"],
                "grant_types_supported": ["client_credentials"],
                "token_endpoint_auth_methods_supported": ["client_secret_basic"],
                "scopes_supported": ["satchel:read", "satchel:write"],
            }
        if path == "/keys":
            self.fetches += 1
            return self.jwks()
        return None

    def granted(self, form: dict[str, list[str]]) -> dict[str, Any]:
        self.asked.append(form)
        token = self.token(next(iter(self.keys)), aud=form["resource"][0], scope=form["scope"][0])
        return {"access_token": token, "token_type": "Bearer", "expires_in": 300, "scope": form["scope"][0]}


@contextlib.contextmanager
def running_issuer(*, port: int = 0, issuer: Issuer | None = None) -> Iterator[Issuer]:
    """Run an issuer; give one that ran before, and its port, to bring it back."""
    issuer = issuer or Issuer()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(issuer.document(self.path))

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.answer(issuer.granted(form))

        def answer(self, document: Any) -> None:
            content = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(404 if document is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *given: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        issuer.url = f"http://127.0.0.1:{server.server_address[1]}"
        if not issuer.keys:
            issuer.add_key("one")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()
