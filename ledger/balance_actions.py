"""What staff may do in the console to an agent's balance: each action asks for amount and reason first."""

from collections.abc import Callable
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from allowance.confirmation import Shown, confirm
from allowance.console import ReadOnlyAdmin
from allowance.kernel.money import format_amount
from ledger.balance_forms import AdjustmentForm, MovementForm
from ledger.operations import adjust_balance, withdraw_funds
from policy.models import Agent


class BalanceActions(ReadOnlyAdmin):
    """Actions on agents that move their balance."""

    fieldsets: ClassVar[Any] = None  # as in ReadOnlyAdmin

    @admin.action(description="Adjust balance … (asks for amount and reason)", permissions=["operate"])
    def adjust(self, request: HttpRequest, agents: QuerySet[Agent]) -> HttpResponse | None:
        why = "This corrects what the ledger says. It moves nothing on chain."
        return self._move(
            request, agents, AdjustmentForm, adjust_balance, title="Adjust balance", explanation=why, done="Adjusted"
        )

    @admin.action(description="Book a withdrawal … (asks for amount and reason)", permissions=["operate"])
    def withdraw(self, request: HttpRequest, agents: QuerySet[Agent]) -> HttpResponse | None:
        why = (
            "This only books. The tokens are moved by whoever can: on an EVM chain the escrow's owner, with the "
            "contract's function withdraw; on Solana two of the multisig's three signers."
        )
        return self._move(
            request, agents, MovementForm, withdraw_funds, title="Book a withdrawal", explanation=why, done="Debited"
        )

    def _move(
        self,
        request: HttpRequest,
        agents: QuerySet[Agent],
        form_of: type[MovementForm],
        operation: Callable[..., Agent],
        *,
        title: str,
        explanation: str,
        done: str,
    ) -> HttpResponse | None:
        """Ask for a movement of one agent's balance; book it once that is answered."""
        if len(agents) != 1:
            self.message_user(request, "Choose one agent: each movement has its own amount and reason.", messages.ERROR)
            return None
        agent = agents[0]
        form = form_of(agent, request.POST)
        if not form.is_valid():
            facts = {"Balance": f"{format_amount(agent.balance)} {agent.asset}", "Status": agent.status}
            rows = [Shown(agent.id, agent.id, facts)]
            action = request.POST["action"]
            return confirm(self, request, action=action, title=title, explanation=explanation, rows=rows, form=form)
        by = request.user.get_username()
        self.perform(request, [agent.id], lambda pk: operation(pk, by=by, **form.cleaned_data), done)
        return None
