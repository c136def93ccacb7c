"""The console's actions that move an agent's balance; each asks for an amount and a reason first."""

from collections.abc import Callable
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html

from allowance.console.confirmation import Shown, confirm
from allowance.console.pages import ReadOnlyAdmin
from allowance.kernel.money import format_amount
from payments.admin.balance_forms import AdjustmentForm, MovementForm, WithdrawalForm
from payments.funding.credits import adjust_balance
from payments.funding.withdrawals import book_withdrawal
from policy.models import Agent


class BalanceActions(ReadOnlyAdmin):
    """Actions on agents that move their balance."""

    fieldsets: ClassVar[Any] = None  # as in ReadOnlyAdmin

    @admin.action(description="Adjust balance … (asks for amount and reason)", permissions=["operate"])
    def adjust(self, request: HttpRequest, agents: QuerySet[Agent]) -> HttpResponse | None:
        why = (
            "This corrects the ledger, and moves nothing on chain. A credit is taken from the surplus, which is what "
            "an escrow holds and nobody was promised; see Reconciliations."
        )
        page, _ = self._ask_and_book(
            request, agents, AdjustmentForm, adjust_balance, title="Adjust balance", explanation=why, done="Adjusted"
        )
        return page

    @admin.action(description="Book a withdrawal … (asks for amount, address and reason)", permissions=["operate"])
    def withdraw(self, request: HttpRequest, agents: QuerySet[Agent]) -> HttpResponse | None:
        why = (
            "This takes the money out of the balance: nobody can spend it any more. Then the owner of the escrow moves "
            "the tokens: the page of the withdrawal shows what to sign, and later whether it has landed."
        )
        page, booked = self._ask_and_book(
            request,
            agents,
            WithdrawalForm,
            book_withdrawal,
            title="Book a withdrawal",
            explanation=why,
            done="Booked a withdrawal of",
        )
        for one in booked:
            address = reverse("admin:payments_withdrawal_change", args=[one.pk])
            sign = format_html('<a href="{}">What the owner of the escrow has to sign for {}</a>', address, one)
            self.message_user(request, sign, messages.WARNING)
        return page

    def _ask_and_book(
        self,
        request: HttpRequest,
        agents: QuerySet[Agent],
        form_of: type[MovementForm],
        operation: Callable[..., Model],
        *,
        title: str,
        explanation: str,
        done: str,
    ) -> tuple[HttpResponse | None, list[Model]]:
        """Show the form for a movement of one agent's balance; once it is filled in, book it and return the rows."""
        if len(agents) != 1:
            self.message_user(request, "Choose one agent: each movement has its own amount and reason.", messages.ERROR)
            return None, []
        agent = agents[0]
        form = form_of(agent, request.POST)
        if not form.is_valid():
            facts = {"Balance": f"{format_amount(agent.balance)} {agent.asset}", "Status": agent.status}
            rows = [Shown(agent.id, agent.id, facts)]
            action = request.POST["action"]
            page = confirm(self, request, action=action, title=title, explanation=explanation, rows=rows, form=form)
            return page, []
        by = request.user.get_username()
        booked: list[Model] = []

        def book(pk: str) -> Agent:
            booked.append(operation(pk, by=by, **form.cleaned_data))
            return agent

        self.perform(request, [agent.id], book, done)
        return None, booked
