"""The web process: `granian --interface asginl allowance.asgi:application`; the whole command is in the Procfile."""

from collections.abc import Callable, Iterable

from allowance.api.errors import error_response
from allowance.api.middleware import answer_headers
from allowance.api.wsgi_requests import LenientRequest
from allowance.front.incoming import Environ
from allowance.front.serving import Front
from allowance.front.sockets import allow_files
from allowance.kernel.errors import RateLimited
from allowance.wsgi import application as django


def answer_too_many(environ: Environ, start_response: Callable[..., object]) -> Iterable[bytes]:
    """Answer 429 as Django would, without asking anybody."""
    refusal = RateLimited("Too many requests are waiting already.", retry_after_s=1)
    refuse = answer_headers(lambda _request: error_response(refusal))
    response = refuse(LenientRequest(environ))
    start_response(f"{response.status_code} {response.reason_phrase}", list(response.items()))
    return [response.content]


allow_files()
application = Front(django, answer_too_many)
