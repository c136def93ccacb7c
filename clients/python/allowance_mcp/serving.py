"""Serve many agents over streamable HTTP: an ASGI application, which holds no secret and no session.

Each request brings the API key of its agent; it is passed on to the API, which decides whether it is valid, and
forgotten with the request. Whoever has no valid key gets no further than that question, whose places are their own.
"""

import asyncio
import hashlib
import os
import resource
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import httpx
from allowance_client import AsyncAllowance
from allowance_client.errors import ClientError, InvalidApiKey, RateLimited
from mcp.server.context import ServerRequestContext
from mcp.server.transport_security import TransportSecuritySettings

from allowance_mcp.answers import Receive, Refused, Scope, Send, answer, bearer_key, read_body, replay
from allowance_mcp.gates import Acquaintances, Bounds, Crowded, Gate
from allowance_mcp.server import make_server
from allowance_mcp.settings import BadSetting, HttpSettings, read_http_settings
from allowance_mcp.tools import LONGEST_CALL_S, PATIENCE_S, TIMEOUT_S, Caller

App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
PATH = "/mcp"
MOST_BODY_BYTES = 64 * 1024
BODY_DEADLINE_S = 10
MOST_FILES = 8192
LONGEST_QUESTION_S = 5
# Whose key was never valid or not lately, whose key was valid a moment ago, and whose key is.
STRANGERS = Bounds(inside=8, inside_each=2, present=256, present_each=64)
ASKING = Bounds(inside=24, inside_each=4, present=512, present_each=64)
WORKING = Bounds(inside=64, inside_each=8, present=512, present_each=64)
_CALLER = "allowance_mcp.caller"


class Front:
    """In front of the server of MCP: probes, the caller's key, and bounds on time, size and number."""

    def __init__(self, settings: HttpSettings) -> None:
        self._url = settings.url
        self._inner = _make_inner(settings)
        self._strangers, self._asking, self._working = Gate(STRANGERS), Gate(ASKING), Gate(WORKING)
        self._known = Acquaintances()
        self._http: httpx.AsyncClient | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
        elif scope["type"] == "http":
            try:
                await self._serve(scope, receive, send)
            except Refused as refused:
                await answer(send, refused)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"].rstrip("/") or "/", scope["method"]
        if path == "/healthz" and method == "GET":
            raise Refused(200, {"status": "ok"})
        if path != PATH:
            raise Refused.of(404, "not_found", "There is nothing at this address.")
        if method != "POST":
            # A GET would open a stream that stays: this server has nothing to tell of its own accord.
            raise Refused.of(405, "method_not_allowed", "Only POST is answered here.", allow="POST")
        key = bearer_key(scope)
        who = hashlib.sha256(key.encode()).digest()
        try:
            async with (self._asking if self._known.knows(who) else self._strangers).enter(who):
                agent_id = await self._find_agent(key, who)
            body = await read_body(receive, MOST_BODY_BYTES, BODY_DEADLINE_S)
            async with self._working.enter(who):
                caller = Caller(self._open(key, agent_id), agent_id)
                await self._pass_on({**scope, "path": PATH, _CALLER: caller}, replay(body, receive), send)
        except Crowded:
            raise Refused.of(429, "rate_limited", "Too many calls are under way.", retry_after="1") from None

    async def _find_agent(self, key: str, who: bytes) -> str:
        """Ask the API whom the key is bound to."""
        try:
            async with asyncio.timeout(LONGEST_QUESTION_S):
                me = await self._open(key, None, patience_s=0).me()
        except InvalidApiKey:
            self._known.forget(who)
            raise Refused.unauthorized() from None
        except RateLimited as error:
            wait = str(int(error.retry_after_s or 1))
            raise Refused.of(429, "rate_limited", "Too many requests with this API key.", retry_after=wait) from None
        except (ClientError, TimeoutError):
            raise Refused.unavailable("Allowance does not answer now.") from None
        self._known.remember(who)
        if me.agent_id is None:
            raise Refused.of(403, "insufficient_scope", "This API key is bound to no agent.")
        return me.agent_id

    def _open(self, key: str, agent_id: str | None, patience_s: float = PATIENCE_S) -> AsyncAllowance:
        """Speak with a key over the connections that all share: the key is in the requests alone."""
        if self._http is None:
            limits = httpx.Limits(
                max_connections=STRANGERS.inside + ASKING.inside + WORKING.inside, max_keepalive_connections=32
            )
            self._http = httpx.AsyncClient(limits=limits, trust_env=self._url.startswith("https:"))
            # What the API tells one caller is never told for another.
            self._http.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        return AsyncAllowance(self._url, key, agent_id, self._http, timeout_s=TIMEOUT_S, patience_s=patience_s)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(LONGEST_CALL_S + 5):
                await self._inner(scope, receive, send)
        except TimeoutError:
            raise Refused.unavailable("The call took too long.") from None


def make_app() -> Front:
    """Make the application by the environment: ALLOWANCE_URL, MCP_ALLOWED_HOSTS, MCP_ALLOWED_ORIGINS.

    Raises:
        SystemExit: names what is missing.
    """
    _raise_file_limit()
    try:
        return Front(read_http_settings(os.environ))
    except BadSetting as error:
        raise SystemExit(str(error)) from None


def _raise_file_limit() -> None:
    """Let this process hold as many connections as the Procfile lets in: who only opens them shuts nobody out."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if most == resource.RLIM_INFINITY else min(MOST_FILES, most)
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def _make_inner(settings: HttpSettings) -> App:
    """Make the server of MCP. Without sessions there is none that somebody could take over."""

    def find_caller(context: ServerRequestContext[Any, Any]) -> Caller:
        if context.request is None:
            raise LookupError("A call came without its HTTP request.")
        caller: Caller = context.request.scope[_CALLER]
        return caller

    security = TransportSecuritySettings(
        allowed_hosts=[form for host in settings.hosts for form in (host, f"{host}:*")],
        allowed_origins=list(settings.origins),
    )
    app: App = make_server(find_caller).streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=MOST_BODY_BYTES,
        transport_security=security,
    )
    return app
