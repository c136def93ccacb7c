"""A provider of OpenID Connect on this machine: real HTTP, signed tokens, the authorization code flow with PKCE."""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from jwt.algorithms import RSAAlgorithm

CLIENT, SECRET = "allowance", "the client's secret"
KEY_ID = "key-1"


class OidcProvider:
    """What the provider says of whoever comes, and what it has given out. Tests change `claims` and `info`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.key = generate_private_key(65537, 2048)
        self.signing_key: RSAPrivateKey = self.key
        self.algorithm = "RS256"
        self.claims: dict[str, Any] = {}
        self.info: dict[str, Any] = {"email": "ann@example.com", "email_verified": True}
        self.asked: list[dict[str, str]] = []
        self._codes: dict[str, dict[str, str]] = {}

    def configuration(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "jwks_uri": f"{self.url}/keys",
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        }

    def authorize(self, query: dict[str, str]) -> str:
        """Give a code to whoever asks as it should, and lead back with it."""
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT
        assert query["code_challenge_method"] == "S256"
        assert "openid" in query["scope"].split()
        self.asked.append(query)
        code = secrets.token_urlsafe()
        self._codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def token(self, form: dict[str, str]) -> dict[str, Any] | None:
        """Exchange a code, once, for whoever began with it; None: it is refused."""
        asked = self._codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        is_right = (
            asked is not None
            and (form["client_id"], form["client_secret"]) == (CLIENT, SECRET)
            and form["redirect_uri"] == asked["redirect_uri"]
            and base64.urlsafe_b64encode(digest).decode().rstrip("=") == asked["code_challenge"]
        )
        if not is_right:
            return None
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "sub": "ann", "iat": now, "exp": now + 300, **self.claims}
        key = None if self.algorithm == "none" else self.signing_key
        token = jwt.encode(claims, key, self.algorithm, {"kid": KEY_ID})  # type: ignore[arg-type]
        return {"access_token": "an access token", "token_type": "Bearer", "expires_in": 300, "id_token": token}

    def userinfo(self) -> dict[str, Any]:
        return {"sub": "ann", **self.info}

    def keys(self) -> dict[str, Any]:
        public = json.loads(RSAAlgorithm.to_jwk(self.key.public_key()))
        return {"keys": [{**public, "kid": KEY_ID, "alg": "RS256", "use": "sig"}]}


@contextmanager
def running_provider() -> Iterator[OidcProvider]:
    """Run a provider while its tests do."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.provider = OidcProvider(f"http://127.0.0.1:{server.server_port}")  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.provider  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    @property
    def _provider(self) -> OidcProvider:
        provider: OidcProvider = self.server.provider  # type: ignore[attr-defined]
        return provider

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path == "/authorize":
            self.send_response(302)
            self.send_header("Location", self._provider.authorize(_single(urlsplit(self.path).query)))
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif path == "/userinfo" and self.headers["Authorization"] != "Bearer an access token":
            self._answer(None)
        else:
            told = {
                "/.well-known/openid-configuration": self._provider.configuration,
                "/userinfo": self._provider.userinfo,
                "/keys": self._provider.keys,
            }
            self._answer(told[path]())

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self._answer(self._provider.token(_single(sent)))

    def _answer(self, told: dict[str, Any] | None) -> None:
        body = json.dumps(told or {"error": "invalid_grant"}).encode()
        self.send_response(400 if told is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


def _single(query: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(query).items()}
