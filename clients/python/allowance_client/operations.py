"""What the client can do, once for both of its faces: every method returns a flow for a driver to run."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from allowance_client import requests
from allowance_client.demands import DemandedPayment
from allowance_client.errors import AgentRequired
from allowance_client.evaluations import Evaluation
from allowance_client.exchanges import Patience
from allowance_client.models import Budget, DecisionResult, LogEntry, Me, Service
from allowance_client.pages import Pages, read_with
from allowance_client.paying import PaymentIntent, Wanted, pay, pay_demand
from allowance_client.payment_models import Payment, PaymentState, PaymentStatus, Proof
from allowance_client.requests import Amount, get, path_of, post
from allowance_client.settling import wait_settled, wait_until_decided
from allowance_client.steps import Flow, Request

T = TypeVar("T")


class Operations:
    """The operations with one key for one agent: the one named, or the one that the key is bound to."""

    def __init__(self, agent_id: str | None, patience: Patience) -> None:
        self.agent_id = _checked(agent_id)
        self.patience = patience
        self._bound_agent_id: str | None = None
        self._assets: dict[str, str] = {}

    def me(self) -> Flow[Me]:
        """Read what the API key is: its scopes, its agent, its expiry."""
        return (yield from self._ask(get("/v1/me"), Me.read))

    def budget(self, agent_id: str | None = None) -> Flow[Budget]:
        """Read balance, spend and limits of an agent. Needs the scope `budgets`."""
        agent_id = yield from self._find_agent(agent_id)
        return (yield from self._ask(get(path_of("agents", agent_id, "budget")), Budget.read))

    def evaluate(
        self,
        *,
        service: str,
        amount: Amount,
        reason: str,
        asset: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        agent_id: str | None = None,
    ) -> Flow[Evaluation]:
        """Ask what a payment would be answered now. Nothing is written, and nothing is promised."""
        wanted = Wanted(service, amount, reason, asset, metadata, agent_id)
        body = yield from self._body(wanted)
        return (yield from self._ask(post("/v1/payments/evaluate", body), Evaluation.read))

    def pay(
        self,
        *,
        service: str,
        amount: Amount,
        reason: str,
        asset: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        wait_s: int | None = None,
        wait_until_allowed_s: float = 0,
        wait_until_decided_s: float = 0,
        agent_id: str | None = None,
    ) -> Flow[Payment]:
        """Pay once, however often the request has to be sent: one call has one idempotency key.

        Give a key of your own, and keep it before you call, if the payment shall be one across crashes, too.
        `wait_s`: let the answer wait so long for the transaction to be in a block, up to 30.
        `wait_until_allowed_s`: if a limit refuses and the same payment fits within that time, wait and ask again, with
        a key derived from the first; call again with the same arguments after a crash. Not so where a person has
        approved the payment before: the refusal is raised, for they would be asked once more.
        `wait_until_decided_s`: if a person has to approve the payment, wait so long for that. What is returned before
        they have `is_pending`: nothing is paid yet, and the same key tells later what has become of it.

        Raises:
            AllowanceError: the refusal, by its code; `ApprovalDeclined`: a person was asked, and it is not paid.
            NoAnswer: nothing is known. Go on with the exception's `idempotency_key`, and only with that.
        """
        key = requests.check_idempotency_key(
            requests.new_idempotency_key() if idempotency_key is None else idempotency_key
        )
        wanted = Wanted(service, amount, reason, asset, metadata, agent_id)
        body = yield from self._body(wanted)
        intent = PaymentIntent(body, key, wait_s, wait_until_allowed_s, wait_until_decided_s)
        return (yield from pay(self.patience, intent))

    def pay_demand(
        self,
        *,
        service: str,
        requirements: Mapping[str, Any],
        reason: str,
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        wait_until_decided_s: float = 0,
        agent_id: str | None = None,
    ) -> Flow[DemandedPayment]:
        """Pay what a payee's 402 asks for (x402): `requirements` is one element of its `accepts`, as it came.

        Send the payee the result's `header` as PAYMENT-SIGNATURE. `PayingTransport` does all of it. Keys, and what is
        raised, are those of `pay`; and `ApprovalPending` while a person has to approve it, for there is no `header`.
        """
        key = requests.check_idempotency_key(
            requests.new_idempotency_key() if idempotency_key is None else idempotency_key
        )
        agent_id = yield from self._find_agent(agent_id)
        body = {"agentId": agent_id, "service": service, "paymentRequirements": requirements, "reason": reason}
        extra = {} if metadata is None else {"metadata": metadata}
        return (yield from pay_demand(self.patience, {**body, **extra}, key, wait_until_decided_s))

    def payment(self, payment_id: str) -> Flow[PaymentState]:
        """Read a payment as it is now."""
        return (yield from self._ask(get(path_of("payments", payment_id)), PaymentState.read))

    def payments(
        self,
        *,
        service: str | None = None,
        status: PaymentStatus | None = None,
        amount: Amount | None = None,
        since: datetime | None = None,
        idempotency_key: str | None = None,
        agent_id: str | None = None,
    ) -> Pages[PaymentState]:
        """List payments, newest first, over all pages."""
        query = {
            "agentId": self._name_agent(agent_id),
            "service": service,
            "status": status,
            "amount": None if amount is None else requests.write_amount(amount),
            "since": None if since is None else requests.write_instant(since),
            "idempotencyKey": idempotency_key,
        }
        return Pages(self.patience, "/v1/payments", query, PaymentState.read)

    def wait_settled(self, payment_id: str, timeout_s: float = 120) -> Flow[PaymentState]:
        """Wait until a payment is final on its chain.

        Raises:
            PaymentFailed: it never will be; the amount is the agent's again.
            ApprovalDeclined: a person had to approve it, and did not.
            SettlementTimeout: it is not yet, and may still be: do not pay again.
        """
        return (yield from wait_settled(self.patience, payment_id, timeout_s))

    def wait_until_decided(self, payment: Payment | PaymentState | str, timeout_s: float = 600) -> Flow[PaymentState]:
        """Wait while a person has to approve a payment, which is named by itself or by its id; return it once approved.

        Raises:
            ApprovalDeclined: it is not paid, and never will be; its `message` says why.
            ApprovalPending: nobody has answered in time. It may still be paid: do not pay again.
        """
        payment_id = payment if isinstance(payment, str) else payment.id
        return (yield from wait_until_decided(self.patience, payment_id, self.patience.clock() + timeout_s))

    def proof(self, payment_id: str) -> Flow[Proof]:
        """Fetch a signed statement about a payment, to hand to its payee."""
        return (yield from self._ask(get(path_of("payments", payment_id, "proof")), Proof.read))

    def services(self, agent_id: str | None = None) -> Flow[tuple[Service, ...]]:
        """List the services that the agent may pay now, by id."""
        pages = Pages(self.patience, "/v1/services", {"agentId": self._name_agent(agent_id)}, Service.read)
        page = yield from pages.page(None)
        found, cursor = page.items, None
        while not page.is_last(cursor):
            cursor = page.next_cursor
            page = yield from pages.page(cursor)
            found += page.items
        return found

    def service(self, service_id: str) -> Flow[Service]:
        """Read one service."""
        return (yield from self._ask(get(path_of("services", service_id)), Service.read))

    def register_service(
        self,
        *,
        id: str,  # noqa: A002 - as the contract names it
        name: str,
        recipient: str,
        asset: str,
        webhook_url: str | None = None,
    ) -> Flow[Service]:
        """Register a payee, or change one; finance staff approve it. Without `webhook_url` the present one stays."""
        body = {"id": id, "name": name, "recipient": recipient, "asset": asset}
        extra = {} if webhook_url is None else {"webhookUrl": webhook_url}
        return (yield from self._ask(post("/v1/services", {**body, **extra}), Service.read))

    def logs(
        self,
        result: DecisionResult | None = None,
        *,
        idempotency_key: str | None = None,
        agent_id: str | None = None,
    ) -> Pages[LogEntry]:
        """List decisions, newest first, over all pages: `approved`, `blocked` or `held` alone, or that of one key.

        A server of release 0.2 or earlier does not know the key, and lists all.
        """
        query = {"agentId": self._name_agent(agent_id), "result": result, "idempotencyKey": idempotency_key}
        return Pages(self.patience, "/v1/logs", query, LogEntry.read)

    def log(self, log_id: str) -> Flow[LogEntry]:
        """Read one decision."""
        return (yield from self._ask(get(path_of("logs", log_id)), LogEntry.read))

    def public_keys(self) -> Flow[Mapping[str, Any]]:
        """Fetch the installation's public keys (a JWKS), which verify receipts, webhooks and proofs."""
        return (yield from self._ask(get("/.well-known/allowance-keys.json"), lambda raw: raw))

    def _ask(self, request: Request, read: Callable[[Mapping[str, Any]], T]) -> Flow[T]:
        reply = yield from self.patience.exchange(request)
        return read_with(read, reply.raw)

    def _body(self, wanted: Wanted) -> Flow[dict[str, Any]]:
        """Write the body of a payment request, with the agent and the asset that go without saying."""
        requests.write_amount(wanted.amount)  # what is no amount is refused before anything is asked
        agent_id = yield from self._find_agent(wanted.agent_id)
        return wanted.body(agent_id, wanted.asset or (yield from self._find_asset(agent_id)))

    def _name_agent(self, agent_id: str | None) -> str | None:
        """Name the agent of a list: the one that the call names, else the client's; None: that of the bound key."""
        return self.agent_id if agent_id is None else _checked(agent_id)

    def _find_agent(self, agent_id: str | None) -> Flow[str]:
        """Name the agent of a call: as of a list, but that of the bound key is asked for, once."""
        if (named := self._name_agent(agent_id)) is not None:
            return named
        if self._bound_agent_id is None:
            self._bound_agent_id = (yield from self.me()).agent_id
        if self._bound_agent_id is None:
            raise AgentRequired("The API key is bound to no agent: name one, as agent_id.")
        return self._bound_agent_id

    def _find_asset(self, agent_id: str) -> Flow[str]:
        """Name the asset of an agent's allowance, which is asked for once."""
        if agent_id not in self._assets:
            self._assets[agent_id] = (yield from self.budget(agent_id)).asset
        return self._assets[agent_id]


def _checked(agent_id: str | None) -> str | None:
    """Return an agent id. An empty one, of a variable that is not set, must not come to mean somebody else."""
    if agent_id == "":
        raise ValueError("An agent id is not empty. Is the variable set that it comes from?")
    return agent_id
