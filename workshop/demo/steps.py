"""The steps of the story: each makes a request, prints what was promised and compares it with what came."""

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import requests
from django.conf import settings

from chains.catalogue import Vm
from foundation.kernel.errors import OperationRefused
from policy.rules import SIGNER_RULE
from workshop.demo import evm_reader, solana_reader
from workshop.demo.chain_reader import Claim
from workshop.demo.client import Api
from workshop.demo.customer import Deposit, deposit
from workshop.demo.promises import Order, Payment, Refusal, Registration
from workshop.demo.screen import Screen

_SETTLEMENT_S = 60
_POLL_S = 0.1
_NOTHING = "0.00"
_READERS = {Vm.EVM: evm_reader, Vm.SOLANA: solana_reader}
_T = TypeVar("_T")
_NUMBERS = ("limit", "spent", "requested", "remaining", "allowedAt")


class Steps:
    """Plays the steps of one run. `check_processes` is called while waiting; it raises if a process has ended."""

    def __init__(self, api: Api, screen: Screen, run: int, check_processes: Callable[[], None]) -> None:
        self._api = api
        self._screen = screen
        self._run = run
        self._check_processes = check_processes
        self._keys = 0
        self._approved: list[Payment] = []
        self._settled: list[Payment] = []

    def note(self, text: str) -> None:
        self._screen.detail(text)

    def act_as_staff(self, text: str, act: Callable[[], _T]) -> _T | None:
        """Do what finance staff do, by the operation that the console calls; returns its result, None if refused."""
        try:
            done = act()
        except OperationRefused as error:
            self._screen.step(f"Finance: {text}", "done")
            self._screen.came(str(error), as_promised=False)
            return None
        self._screen.line(f"\n     Finance: {text}")
        return done

    def fund(self, wanted: Sequence[Deposit]) -> None:
        """Fund allowances: a customer's wallet deposits into the escrow, and names the agent."""
        for one in wanted:
            where = f"on {one.chain}, in block {deposit(one)}"
            self._screen.line(f"\n     A customer deposits {one.amount} {one.asset} for {one.agent} {where}")
        for one in wanted:
            self._screen.step(f"{one.agent} is funded", f"balance {one.amount}.00 once the deposit's block is final")
            balance = self._wait_for_balance(one.agent)
            self._screen.came(f"balance {balance} {one.asset}", as_promised=balance == f"{one.amount}.00")

    def register(self, payee: Registration, promised: set[str]) -> None:
        """Register a payee; `promised` are the states that it may then have."""
        title = f"Register {payee.service}, paid in {payee.asset}"
        self._screen.step(title, f"200 or 201, {' or '.join(sorted(promised))}")
        answer = self._api.post("/v1/services", payee.body)
        came = answer.json()
        kept = answer.status_code in (requests.codes.ok, requests.codes.created) and came.get("status") in promised
        self._screen.came(f"{answer.status_code} {came.get('status') or came}", as_promised=kept)
        self.note(f"recipient {payee.recipient}")
        if payee.webhook_url is not None:
            self.note(f"webhookUrl {payee.webhook_url}")

    def pay(self, order: Order, *, key: str | None = None) -> Payment:
        """Request a payment that should be approved."""
        self._screen.step(str(order), "201 approved")
        payment = self._request(order, key)
        if self._came(payment, as_promised=payment.answer.status_code == requests.codes.created):
            self._approved.append(payment)
        return payment

    def pay_refused(self, title: str, order: Order, promised: Refusal) -> Payment:
        """Request a payment that should be refused, with the promised explanation."""
        self._screen.step(title, str(promised))
        payment = self._request(order, None)
        self._came(payment, as_promised=promised.is_kept_by(payment.answer))
        return payment

    def wait_until_seen(self, order: Order) -> None:
        """Wait until the watcher has looked at the payee's account: before, nobody knows what it holds."""
        for _ in range(int(_SETTLEMENT_S / _POLL_S)):
            found = self._api.post("/v1/payments/evaluate", order.body(self._run)).json()
            if found.get("rule") != SIGNER_RULE.name:
                break
            time.sleep(_POLL_S)

    def replay(self, first: Payment) -> None:
        """Send a request again: the answer should be the same, byte by byte."""
        self._screen.step("The same request again, as after a lost answer", "201, the same bytes, Idempotent-Replayed")
        again = self._api.pay(first.body, first.key)
        is_replay = again.headers.get("Idempotent-Replayed") == "true"
        is_same = again.content == first.answer.content
        kept = is_replay and is_same and again.status_code == first.answer.status_code
        same = "the same" if is_same else "other"
        text = f"{again.status_code}, {same} {len(again.content)} bytes, Idempotent-Replayed: {str(is_replay).lower()}"
        self._screen.came(text, as_promised=kept)

    def conflict(self, first: Payment, amount: str) -> None:
        """Use the key of an earlier payment for another amount: that should be refused."""
        self._screen.step(f"The same Idempotency-Key for {amount}", "409 idempotency_conflict")
        answer = self._api.pay({**first.body, "amount": amount}, first.key)
        error = answer.json().get("error", {})
        kept = answer.status_code == requests.codes.conflict and error.get("code") == "idempotency_conflict"
        self._screen.came(f"{answer.status_code} {error.get('code')}: {error.get('message')}", as_promised=kept)

    def unsettled(self) -> list[Payment]:
        """List the approved payments that `settle` has not followed yet."""
        return [payment for payment in self._approved if payment not in self._settled]

    def settle(self, payment: Payment) -> None:
        """Follow an approved payment until it is settled, then ask the chain itself what the payee received."""
        self._settled.append(payment)
        order, payment_id = payment.order, payment.answer.json()["id"]
        caip2, _, address = self._api.get(f"/v1/payments/{payment_id}").json()["recipient"].rpartition(":")
        chain = settings.CHAINS[caip2]
        reader = _READERS[chain.chain.vm]
        self._screen.step(f"{order.amount} {order.asset} arrive at {order.service}", f"settled, {reader.PROMISE}")
        state = self._follow(payment_id)
        status, tx = state.get("status", "unknown"), state.get("finalTx")
        if tx is None:
            self._screen.came(f"{status}, no final transaction", as_promised=False)
            return
        found = reader.find_arrival(Claim(chain, payment_id, tx, order.asset, order.amount, address))
        self._screen.came(
            f"{status}, {found.text if found else f'but the chain does not know {tx}'}",
            as_promised=status == "settled" and found is not None and found.is_exact,
        )
        self.note(f"tx {tx}")

    def check_budget(self, agent: str, **promised: str) -> None:
        """Read an agent's budget after all this."""
        self._screen.step(f"The budget of {agent}", ", ".join(f"{name} {value}" for name, value in promised.items()))
        budget = self._api.get(f"/v1/agents/{agent}/budget").json()
        came = {name: budget.get(name) for name in promised}
        text = ", ".join(f"{name} {value}" for name, value in came.items())
        self._screen.came(text, as_promised=came == promised)

    def _wait_for_balance(self, agent: str) -> str:
        """Poll an agent's balance until there is one."""
        end = time.monotonic() + _SETTLEMENT_S
        balance = ""
        while balance in ("", _NOTHING) and time.monotonic() < end:
            self._check_processes()
            time.sleep(_POLL_S)
            balance = self._api.get(f"/v1/agents/{agent}/budget").json().get("balance", "")
        return balance

    def _request(self, order: Order, key: str | None) -> Payment:
        self._check_processes()
        self._keys += 1
        key, body = key or f"demo-{self._run}-{self._keys}", order.body(self._run)
        return Payment(order, body, key, self._api.pay(body, key))

    def _came(self, payment: Payment, *, as_promised: bool) -> bool:
        answer, body = payment.answer, payment.answer.json()
        if "error" not in body:
            text = f"{answer.status_code} {body['status']}, spent today {body['spentToday']}, {body['policyRevision']}"
            self._screen.came(text, as_promised=as_promised)
            self.note(f"{body['id']}, tx {body['tx'][:18]}…")
            return as_promised
        error = body["error"]
        self._screen.came(f"{answer.status_code} {error['code']}, rule {error.get('rule')}", as_promised=as_promised)
        self.note(error["message"])
        numbers = [f"{name} {error[name]}" for name in _NUMBERS if error.get(name)]
        if numbers:
            self.note(", ".join(numbers))
        if "Retry-After" in answer.headers:
            self.note(f"Retry-After {answer.headers['Retry-After']} s")
        return as_promised

    def _follow(self, payment_id: str) -> dict[str, Any]:
        """Poll a payment until it is settled or failed, and print each change."""
        began = time.monotonic()
        printed = ""
        state: dict[str, Any] = {}
        while time.monotonic() - began < _SETTLEMENT_S:
            self._check_processes()
            state = self._api.get(f"/v1/payments/{payment_id}").json()
            if "error" in state:
                break
            now = f"{state['status']:<9} transaction {state['transactions'][0]['state']}"
            if now != printed:
                self.note(f"{time.monotonic() - began:4.1f} s  {now}")
                printed = now
            if state["status"] != "approved":
                break
            time.sleep(_POLL_S)
        return state
