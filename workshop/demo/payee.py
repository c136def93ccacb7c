"""A payee of the story with its receiver: `python -m allowance_client listen`, as a process."""

import json
import time
from collections.abc import Callable

from workshop.demo import ports
from workshop.demo.client import Api
from workshop.demo.processes import Processes
from workshop.demo.promises import Payment
from workshop.demo.screen import Screen
from workshop.demo.webhook_checks import Reception, find_fault, is_about, promise

_LISTENING_S = 60
_EVENTS_S = 60
_POLL_S = 0.1
_SHOWN_OF_SECRET = 10


class Payee:
    """Plays the payee of one run. `url` is its webhook URL, of this run alone; `log` has the webhooks it received."""

    def __init__(self, service: str, run: int, screen: Screen, api: Api, processes: Processes) -> None:
        self.service = service
        self._port = ports.pick()
        self.url = f"http://{ports.HOST}:{self._port}/webhooks/run-{run}"
        self.log = processes.log_of(service)
        self._screen = screen
        self._api = api
        self._processes = processes

    def start_receiver(self, secret: str) -> None:
        """Start the payee's receiver, with the secret that finance has shown to it."""
        keys = f"{self._api.url}/.well-known/allowance-keys.json"
        who = ("--port", str(self._port), "--service", self.service)
        self._processes.run(
            self.service, "allowance_client", "listen", *who, "--keys", keys, "--json", WEBHOOK_SECRET=secret
        )
        self._wait(lambda: "listening on" in self.log.read_text(), _LISTENING_S)
        self._screen.line(
            f"\n     {self.service} starts its receiver: python -m allowance_client listen {' '.join(who)} …"
        )
        self._screen.detail(f"WEBHOOK_SECRET={secret[:_SHOWN_OF_SECRET]}…")

    def check_webhooks(self, payment: Payment) -> None:
        """Compare the webhooks about a settled payment with what is promised: at least once each, in any order."""
        payment_id = payment.answer.json()["id"]
        promised = promise(payment, self._api.get(f"/v1/payments/{payment_id}").json())
        title = f"{self.service} receives webhooks about its payment"
        self._screen.step(title, f"{' and '.join(promised)}, each signed v1 and v1a, with the payment's data")
        self._wait(lambda: promised.keys() <= {one["type"] for one in self._received_about(payment_id)}, _EVENTS_S)
        received = self._received_about(payment_id)
        faults = [f"{one['id']}: {fault}" for one in received if (fault := find_fault(one, promised))]
        events = {one["id"]: one["type"] for one in received}
        faults += [f"no {name} after {_EVENTS_S} s" for name in promised if name not in events.values()]
        text = " and ".join(f"{name} {event_id}" for event_id, name in events.items())
        kept = not faults and len(events) == len(promised)
        self._screen.came("; ".join([f"{text}, both verified" if kept else text, *faults]), as_promised=kept)
        for one in received[-1:]:
            self._screen.detail(f"{one['type']}: {_summary(one)}")

    def _received_about(self, payment_id: str) -> list[Reception]:
        """List the webhooks about a payment that the receiver has printed, in the order in which they came."""
        if not self.log.exists():
            return []
        lines = self.log.read_text().split("\n")[:-1]  # what has no end yet is still being written
        receptions = [json.loads(line) for line in lines if line.startswith("{")]
        return [one for one in receptions if is_about(one, payment_id)]

    def _wait(self, is_done: Callable[[], bool], patience_s: float) -> None:
        end = time.monotonic() + patience_s
        while not is_done() and time.monotonic() < end:
            self._processes.check()
            time.sleep(_POLL_S)


def _summary(reception: Reception) -> str:
    data = reception["body"].get("data", {})
    return ", ".join(f"{name} {json.dumps(data.get(name))}" for name in ("amount", "asset", "status", "metadata"))
