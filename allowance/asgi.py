"""The web process: `granian --interface asginl allowance.asgi:application`; the whole command is in the Procfile."""

from allowance.front.loading import end_if_told

end_if_told()

import asyncio
import io
from dataclasses import replace

from django.conf import settings

from allowance.front.incoming import Environ
from allowance.front.outgoing import Answer
from allowance.front.request_lines import RequestLines
from allowance.front.serving import Front
from allowance.front.sockets import raise_file_limit
from allowance.wsgi import application as django
from foundation.api.bodies import LenientRequest
from foundation.api.middleware import answer_headers, request_id_of
from foundation.environment.process_types import ProcessType
from foundation.error_pages import refuse
from foundation.heartbeats import beat
from foundation.kernel.errors import RateLimited
from foundation.reporting import start_reporting
from policy.authentication import name_caller

_AN_ID = "req_" + "0" * 26


def prepare_refusal(path: str) -> Answer:
    """Have Django write, at the start, the answer to requests that no queue takes."""
    refusal = RateLimited("Too many requests are waiting already.", retry_after_s=1)
    answer = answer_headers(lambda request: refuse(request, refusal))
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": path, "wsgi.input": io.BytesIO(), "HTTP_X_REQUEST_ID": _AN_ID}
    response = answer(LenientRequest(environ))
    headers = [(name.lower().encode(), value.encode()) for name, value in response.items() if name != "Content-Length"]
    return Answer(response.status_code, headers, response.content)


_FOR_PEOPLE, _FOR_PROGRAMS = prepare_refusal("/console/"), prepare_refusal("/v1/")


def answer_too_many(environ: Environ) -> Answer:
    """Answer 429 under the request's own id."""
    answer = _FOR_PEOPLE if environ["PATH_INFO"].startswith("/console") else _FOR_PROGRAMS
    old, new = _AN_ID.encode(), request_id_of(environ).encode()
    headers = [(name, value.replace(old, new)) for name, value in answer.headers]
    return replace(answer, headers=headers, body=answer.body.replace(old, new))


def beat_in(loop: asyncio.AbstractEventLoop) -> None:
    """Beat from the loop that serves, every 2 s."""
    beat(ProcessType.WEB)
    loop.call_later(2, beat_in, loop)


raise_file_limit()
_front = Front(django, name_caller, answer_too_many)
application = RequestLines(_front) if settings.ACCESS_LOG else _front
start_reporting()
# Granian has made the loop by now. It starts it without telling so.
beat_in(asyncio.get_event_loop())
