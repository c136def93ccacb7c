"""Deliver what was paid for, once: a payee's receiver of webhooks, in the standard library's server.

    WEBHOOK_SECRET=whsec_… python receive.py weather-api 9000

It prints each event that is genuine, fresh and its own, and answers 400 to all others.
"""

import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from allowance_client import errors, verify_webhook

LARGEST_BODY = 256 * 1024


class Receiver(BaseHTTPRequestHandler):
    """Verifies the bytes as they came, before anything is read from them."""

    seen: set[str] = set()  # yours is a table of your database, with a unique id

    def do_POST(self) -> None:
        body = self.rfile.read(min(int(self.headers.get("Content-Length", 0)), LARGEST_BODY))
        try:
            event = verify_webhook(dict(self.headers), body, service=sys.argv[1], secret=os.environ["WEBHOOK_SECRET"])
        except errors.WebhookInvalid as error:
            self.send_error(400, str(error))
            return
        if event.id not in self.seen:  # an event may come twice
            self.seen.add(event.id)
            print(f"{event.type} {event.payment_id}", flush=True)
        self.send_response(204)
        self.end_headers()


if __name__ == "__main__":
    HTTPServer(("127.0.0.1", int(sys.argv[2])), Receiver).serve_forever()
