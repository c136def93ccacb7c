"""What an exported payment says of its fees, and of the chain."""

from payments.models import Leg, Payment, Settlement
from tests.foundation.console.test_lists import rows_of
from tests.support.factories import decide, make_agent, make_service, new_name

_ROWS = ((Settlement, "payments"), (Leg, "payment"))


def test_an_exported_payment_says_what_its_transactions_have_cost_once_that_is_known_of_each(auditor):
    agent, service = make_agent(), make_service()
    replaced, under_way, unknown = (decide(agent, service, "1").payment_id for _ in range(3))
    for payment, cost in ((replaced, "0.000021"), (under_way, "0.000042"), (unknown, None)):
        Leg.objects.filter(payment=payment).update(cost=cost, most_cost="0.0001")
    for payment, cost, state in ((replaced, "0.00000000000000001", "replaced"), (under_way, None, "expired")):
        row, leg = (of.objects.filter(**{key: payment}).values().get() for of, key in _ROWS)
        second = Settlement.objects.create(**{**row, "tx": new_name("tx"), "state": state})
        Leg.objects.create(**{**leg, "settlement_id": second.tx, "is_live": False, "cost": cost})

    rows = {
        row["id"]: (row["fee"], row["feeCoin"])
        for row in rows_of(auditor.get("payments_payment_changelist", export="jsonl", agent=agent.id))
    }

    assert rows == {replaced: ("0.00002100000000001", "ETH"), under_way: (None, None), unknown: (None, None)}


def test_an_exported_payment_ends_with_what_its_chain_knows_it_by(auditor):
    entry = decide(make_agent(), make_service(), "1")

    (row,) = rows_of(auditor.get("payments_payment_changelist", export="jsonl", agent=entry.agent_id))

    assert [*row.items()][-1] == ("escrowId", Payment.objects.get(pk=entry.payment_id).escrow_id)
