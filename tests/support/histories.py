"""The log of one agent with every kind of entry, and ways to tamper with it."""

import io
import json
from decimal import Decimal
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from ledger.models import LogEntry
from ledger.operations import fund_agent
from payments.deciding.operations import request_payment
from payments.models import Relayer
from payments.reconciling.escrow_history import search_history
from payments.settling.broadcasting import broadcast
from payments.settling.confirming import confirm
from payments.settling.unpaid import resolve_unpaid
from tests.support.factories import make_agent
from tests.support.fake_chain import FakeChain, make_fake_chain
from tests.support.payment_requests import environment_of, make_request, make_service_on, pay_on


class History:
    """An agent with a little of everything: approved, blocked, refused by the signer, failed and given back."""

    def __init__(self) -> None:
        chain: FakeChain = make_fake_chain()
        service = make_service_on(chain)
        self.agent = make_agent(daily_limit="6", max_per_payment="6")
        pay_on(chain, self.agent, service, "1.00")
        # Another relayer's: that its nonce is used says nothing of the first payment.
        Relayer.objects.filter(chain=chain.name, next_nonce=1).update(is_enabled=False)
        failing = pay_on(chain, self.agent, service, "2.00")
        broadcast(chain.name, chain)
        chain.include(failing.settlements.get(), failure="Reverted.")
        confirm(chain.name, chain)
        resolve_unpaid(chain.name, chain)
        chain.include(failing.settlements.get(is_void=True))
        search_history(chain.name, chain)
        pay_on(chain, self.agent, service, "3.00")
        for unserved, amount in ((chain, "5.00"), (FakeChain("nowhere"), "0.50")):
            with pytest.raises(Exception, match=r"limit|served"):
                request_payment(make_request(self.agent, service, amount), environment_of(unserved))
        pay_on(chain, self.agent, service, "0.25")
        fund_agent(self.agent.id, amount=Decimal(2000), by="test")
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        self.entries = list(LogEntry.objects.filter(agent=self.agent).order_by("id"))

    @property
    def middle(self) -> LogEntry:
        return self.entries[2]

    def verify(self) -> dict[str, Any]:
        """Run `verify_log` for this agent; returns its last line."""
        output = io.StringIO()
        try:
            call_command("verify_log", agent=self.agent.id, stdout=output, stderr=io.StringIO())
        except CommandError:
            result: dict[str, Any] = json.loads(output.getvalue().splitlines()[-1])
            assert result["problems"]
        else:
            result = json.loads(output.getvalue().splitlines()[-1])
            assert not result["problems"]
        return result

    def problems_after(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        """Change something as someone who may do anything to the database, verify, and undo it."""
        with transaction.atomic():
            tamper(statement, *parameters)
            problems: list[dict[str, Any]] = self.verify()["problems"]
            transaction.set_rollback(True)
        assert {problem["agentId"] for problem in problems} <= {self.agent.id}
        return problems


def tamper(statement: str, *parameters: Any) -> None:
    """Execute a statement without triggers, foreign keys among them: as an owner of the database could."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(statement, parameters)
        assert cursor.rowcount > 0
        cursor.execute("SET LOCAL session_replication_role = origin")
