"""The console's actions that move an agent's balance; each shows what will happen, and asks for the reason."""

from collections.abc import Mapping
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from chains.catalogue import alias_of
from foundation.console.figures import show_amount
from foundation.kernel.money import EXACT, format_amount
from ledger.movements import find_newest_by_hand
from payments.admin.balance_forms import AdjustmentForm, WithdrawalForm
from payments.admin.money_words import balance_facts, signed
from payments.funding.credits import find_surplus
from payments.proposals import ADJUST, WITHDRAW
from payments.queries import find_newest_reconciliations
from policy.models import Agent
from staff.asking import Step, ask
from staff.lists import ListedAdmin
from staff.second_person import Proposal

Asked = Mapping[str, Any]


class BalanceActions(ListedAdmin):
    """Actions on agents that move their balance."""

    fieldsets: ClassVar[Any] = None  # as in ReadOnlyAdmin

    def has_move_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("ledger.add_balancemovement")

    @admin.action(description="Credit or debit … (asks for amount and reason)", permissions=["move"])
    def adjust(self, request: HttpRequest, agents: QuerySet[Agent]) -> HttpResponse | None:
        why = (
            "This corrects the ledger, and moves nothing on chain. A credit is taken from the surplus, which is what "
            "an escrow holds and nobody was promised; a deduction adds to it."
        )
        return self._ask_about_one(request, agents, "Credit or debit by hand", why, AdjustmentForm)

    @admin.action(description="Book a withdrawal … (asks for amount, address and reason)", permissions=["move"])
    def withdraw(self, request: HttpRequest, agents: QuerySet[Agent]) -> HttpResponse | None:
        why = (
            "This takes the money out of the balance: nobody can spend it any more. Then the owner of the escrow moves "
            "the tokens: the page of the withdrawal shows what to sign, and later whether it has landed."
        )
        return self._ask_about_one(request, agents, "Book a withdrawal", why, WithdrawalForm)

    def _ask_about_one(
        self, request: HttpRequest, agents: QuerySet[Agent], title: str, why: str, form: Any
    ) -> HttpResponse | None:
        if len(agents) != 1:
            self.message_user(request, "Choose one agent: each movement has its own amount and reason.", messages.ERROR)
            return None
        agent = agents[0]
        prepare = _adjustment if form is AdjustmentForm else _withdrawal
        return ask(self, request, [agent], Step(title, why, prepare, _facts, partial(form, agent)))


def _facts(agent: Agent) -> dict[str, str]:
    return {"Balance": f"{show_amount(agent.balance)} {agent.asset}", "Status": agent.status}


def _adjustment(agent: Agent, asked: Asked) -> Proposal:
    amount, chain = asked["amount"], asked["chain"]
    surplus = find_surplus(chain, agent.asset)
    shown = [
        ("Agent", agent.id),
        ("Amount", f"{signed(amount)} {agent.asset}"),
        *balance_facts(agent, amount),
        ("Chain", alias_of(chain)),
    ]
    if surplus is not None:
        after = EXACT.subtract(surplus, amount)
        shown += [
            ("Surplus of the escrow now", f"{show_amount(surplus)} {agent.asset}"),
            ("Surplus of the escrow then", f"{show_amount(after)} {agent.asset}"),
        ]
    return Proposal(ADJUST, "agent", agent.id, _arguments(agent, asked), shown, "")


def _withdrawal(agent: Agent, asked: Asked) -> Proposal:
    amount, chain = asked["amount"], asked["chain"]
    holds = find_newest_reconciliations().filter(chain=chain, asset=agent.asset).first()
    shown = [
        ("Agent", agent.id),
        ("Amount", f"{show_amount(amount)} {agent.asset}"),
        *balance_facts(agent, -amount),
        ("Chain", alias_of(chain)),
        ("Recipient", asked["recipient"]),
    ]
    if holds is not None:
        shown.append(("The escrow held, when it was compared last", f"{show_amount(holds.holds)} {agent.asset}"))
    arguments = {**_arguments(agent, asked), "recipient": asked["recipient"]}
    return Proposal(WITHDRAW, "agent", agent.id, arguments, shown, "")


def _arguments(agent: Agent, asked: Asked) -> dict[str, Any]:
    amount: Decimal = asked["amount"]
    return {
        "agent": agent.id,
        "amount": format_amount(amount),
        "chain": asked["chain"],
        # A movement by hand that is booked meanwhile makes this one void: it was decided without it.
        "after": find_newest_by_hand(agent.id),
    }
