"""What each agent's transactions cost, and that it gets no more of them than its gas budget pays for."""

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from functools import partial
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from allowance.kernel.errors import PolicySignerUnavailable
from allowance.kernel.times import utc_now
from chains.port import Finality, Submitter, TransactionQuery
from ledger.models import LogEntry
from payments.deciding.money_path import read_gas
from payments.deciding.operations import request_payment
from payments.lifecycle import PaymentStatus
from payments.models import AgentGas, Payment, Relayer, Settlement
from payments.settling.agent_gas import DAY, GasUse, find_gas_use
from payments.settling.transaction_costs import GIVE_UP_AFTER, read_costs, record_costs
from policy.models import Agent
from tests.support.chains import COST, MOST_COST, environment_of, make_request
from tests.support.factories import make_agent
from tests.support.fake_nodes import NOT_THERE, Node, Truth, adapter, hash_of, order_of, receipt
from tests.support.localnets import Localnet
from tests.support.scenes import HOUR, Scene, at_once, status_of, transaction_of, transactions_of, void_of

GWEI = 10**9
NOTHING = Decimal(0)
TX = "0x" + "ab" * 32


def use_of(scene: Scene, agent: Agent | None = None) -> GasUse | None:
    found = [use for use in find_gas_use(utc_now(), (agent or scene.agent).id) if use.chain == scene.chain.name]
    return found[0] if found else None


def spent(scene: Scene) -> tuple[Decimal, Decimal]:
    """Read what the scene's agent has used up of a budget, and what its transactions have cost ever."""
    use = use_of(scene)
    assert use is not None
    assert read_gas(scene.agent.id, scene.chain.name, utc_now() - DAY) == use.today
    return use.today, use.ever


def find_costs(scene: Scene) -> int:
    return read_costs(scene.chain.name, scene.chain)


def pay_within(budget: Decimal, scene: Scene, agent: Agent | None = None) -> Payment:
    environment = replace(environment_of(scene.chain), gas_budget=budget)
    entry = request_payment(make_request(agent or scene.agent, scene.service), environment).entry
    return Payment.objects.get(pk=entry.payment_id)


def settle(scene: Scene, *payments: Payment) -> None:
    scene.broadcast()
    for payment in payments:
        scene.chain.include(transaction_of(payment))
    scene.confirm()


# --- What is counted --------------------------------------------------------------------------------------------------
def test_a_payment_counts_at_its_most_until_it_is_known_what_it_has_cost(scene):
    payment = scene.pay()
    assert spent(scene) == (MOST_COST, NOTHING)
    settle(scene, payment)
    assert spent(scene) == (MOST_COST, NOTHING)

    assert find_costs(scene) == 1

    assert spent(scene) == (COST, COST)
    assert transaction_of(payment).cost == COST
    assert find_costs(scene) == 0
    assert spent(scene) == (COST, COST)


def test_a_payment_that_failed_on_the_chain_has_cost_gas_too(scene):
    payment = scene.pay_and_send()
    scene.chain.include(transaction_of(payment), failure="Reverted.")
    scene.confirm()
    scene.give_back(payment)

    find_costs(scene)

    assert status_of(payment) == PaymentStatus.FAILED
    # With nonces, what voided it has cost as much.
    times = 2 if scene.chain.has_nonces else 1
    assert spent(scene) == (times * COST, times * COST)
    assert not scene.chain.has_nonces or void_of(payment).cost == COST


def test_of_a_payment_that_was_signed_several_times_only_what_landed_has_cost_anything(db):
    scene = Scene()
    payment = scene.pay_and_send()
    scene.bump()
    old, new = transactions_of(payment)
    assert spent(scene) == (MOST_COST, NOTHING)
    scene.chain.include(new)
    scene.confirm()

    assert find_costs(scene) == 2

    assert spent(scene) == (COST, COST)
    assert [Settlement.objects.get(pk=row.pk).cost for row in (old, new)] == [0, COST]


def test_what_may_still_land_is_not_said_to_have_cost_nothing(db):
    scene = Scene()
    scene.pay_and_send()
    scene.bump()

    assert find_costs(scene) == 0


def test_what_expired_without_nonces_has_cost_nothing_and_what_took_its_place_counts(db):
    scene = Scene(has_nonces=False)
    payment = scene.pay_and_send()
    scene.expire(payment)
    assert len(transactions_of(payment)) == 2

    find_costs(scene)

    assert spent(scene) == (MOST_COST, NOTHING)


def test_what_fills_a_nonce_is_nobodys(db):
    scene = Scene()
    scene.skip_nonce()
    scene.tend()
    (filler,) = scene.fillers()
    scene.broadcast()
    scene.chain.include(filler)
    scene.confirm()

    find_costs(scene)

    assert scene.fillers()[0].cost == COST
    assert use_of(scene) is None


def test_what_somebody_else_submitted_has_cost_us_nothing(db):
    scene = Scene()
    payment = scene.pay_and_send()
    settle(scene, payment)
    Settlement.objects.filter(payment=payment).update(raw=b"", most_cost=None)

    assert find_costs(scene) == 0
    assert use_of(scene) is None


def test_what_nodes_do_not_tell_alike_stays_at_its_most(scene):
    payment = scene.pay()
    settle(scene, payment)
    row = transaction_of(payment)
    scene.chain.untold.add(row.tx)
    assert find_costs(scene) == 0
    assert spent(scene) == (MOST_COST, NOTHING)

    Settlement.objects.filter(pk=row.pk).update(changed_at=row.changed_at - GIVE_UP_AFTER)
    find_costs(scene)

    assert spent(scene) == (MOST_COST, MOST_COST)


@pytest.mark.parametrize("is_over", [True, False])
def test_what_was_replaced_is_said_to_have_cost_nothing_only_once_another_one_landed_at_its_nonce(db, is_over):
    scene = Scene()
    payment = scene.pay_and_send()
    scene.bump()
    old, new = transactions_of(payment)
    if is_over:
        scene.chain.include(new)
        scene.confirm()
    # As nodes say, which do not tell of it.
    Relayer.objects.filter(chain=scene.chain.name).update(mined_nonce=1)
    scene.chain.untold.add(old.tx)
    Settlement.objects.filter(pk=old.pk).update(changed_at=old.changed_at - GIVE_UP_AFTER)

    find_costs(scene)

    assert Settlement.objects.get(pk=old.pk).cost == (0 if is_over else None)


@pytest.mark.parametrize("is_told", [True, False])
def test_a_node_that_says_that_no_nonce_is_used_does_not_use_up_a_gas_budget(scene, is_told):
    payment = scene.pay()
    settle(scene, payment)
    row = transaction_of(payment)
    Relayer.objects.filter(chain=scene.chain.name).update(mined_nonce=0)
    if not is_told:
        scene.chain.untold.add(row.tx)
        Settlement.objects.filter(pk=row.pk).update(changed_at=row.changed_at - GIVE_UP_AFTER)

    assert find_costs(scene) == 1

    cost = COST if is_told else MOST_COST
    assert spent(scene) == (cost, cost)


@pytest.mark.usefixtures("committed")
def test_workers_at_once_count_a_cost_once():
    scene = Scene()
    payments = [scene.pay() for _ in range(4)]
    settle(scene, *payments)

    at_once([partial(find_costs, scene)] * 4)

    assert spent(scene) == (4 * COST, 4 * COST)


def test_what_was_signed_before_this_was_recorded_is_not_counted(scene):
    payment = scene.pay()
    Settlement.objects.filter(payment=payment).update(agent=None, most_cost=None)
    settle(scene, payment)

    assert find_costs(scene) == 0
    assert use_of(scene) is None


# --- The budget -------------------------------------------------------------------------------------------------------
def test_a_payment_up_to_the_budget_is_approved_and_one_beyond_it_is_not(scene):
    for _ in range(3):
        pay_within(3 * MOST_COST, scene)

    with pytest.raises(PolicySignerUnavailable) as refused:
        pay_within(3 * MOST_COST, scene)

    entry = LogEntry.objects.filter(agent=scene.agent).latest("created_at", "id")
    assert (entry.result, entry.rule, entry.idempotency_key) == ("blocked", "policy_signer_available", None)
    assert "gas budget" in refused.value.message
    assert not any(character.isdigit() for character in refused.value.message.replace("24 hours", ""))


def test_what_has_ended_counts_as_it_really_cost(scene):
    budget = 2 * MOST_COST
    first = [pay_within(budget, scene) for _ in range(2)]
    with pytest.raises(PolicySignerUnavailable):
        pay_within(budget, scene)

    settle(scene, *first)
    find_costs(scene)

    assert status_of(pay_within(budget, scene)) == PaymentStatus.APPROVED
    with pytest.raises(PolicySignerUnavailable):
        pay_within(budget, scene)


@pytest.mark.parametrize(
    ("age_h", "is_approved"), [(-48, True), (-2, True), (0, False), (23, False), (24, False), (26, True)]
)
def test_what_is_older_than_a_day_or_of_a_clock_that_had_jumped_ahead_does_not_count(scene, age_h, is_approved):
    hour = utc_now().replace(minute=0, second=0, microsecond=0)
    AgentGas.objects.create(agent=scene.agent, chain=scene.chain.name, hour=hour - age_h * HOUR, cost=MOST_COST)

    if is_approved:
        pay_within(MOST_COST, scene)
    else:
        with pytest.raises(PolicySignerUnavailable):
            pay_within(MOST_COST, scene)
    assert spent(scene) == (MOST_COST, MOST_COST)


def test_what_a_clock_that_is_a_little_ahead_has_noted_in_its_next_hour_counts(scene):
    hour = utc_now().replace(minute=0, second=0, microsecond=0)
    AgentGas.objects.create(agent=scene.agent, chain=scene.chain.name, hour=hour + HOUR, cost=MOST_COST)

    with pytest.raises(PolicySignerUnavailable):
        pay_within(MOST_COST, scene)


def test_other_agents_and_other_chains_have_budgets_of_their_own(scene):
    elsewhere, other = Scene(has_nonces=scene.chain.has_nonces), make_agent()
    pay_within(MOST_COST, scene)

    pay_within(MOST_COST, scene, other)
    pay_within(MOST_COST, elsewhere, scene.agent)

    for where, agent in ((scene, scene.agent), (scene, other), (elsewhere, scene.agent)):
        with pytest.raises(PolicySignerUnavailable):
            pay_within(MOST_COST, where, agent)


def test_without_a_budget_there_is_none(scene):
    for _ in range(8):
        scene.pay()
    assert spent(scene) == (8 * MOST_COST, NOTHING)


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("has_nonces", [True, False])
def test_a_burst_of_dust_does_not_pass_the_budget_before_anything_has_settled(has_nonces):
    scene = Scene(relayers=4, has_nonces=has_nonces)
    budget = 5 * MOST_COST

    def ask() -> int:
        approved = 0
        for _ in range(4):
            with suppress(PolicySignerUnavailable):
                pay_within(budget, scene)
                approved += 1
        return approved

    assert sum(at_once([ask] * 8)) == 5
    assert spent(scene) == (budget, NOTHING)


# --- Who is told ------------------------------------------------------------------------------------------------------
def test_the_command_shows_what_each_agent_has_cost(scene, settings):
    payment = scene.pay()
    settle(scene, payment)
    find_costs(scene)
    settings.GAS_BUDGET_PER_AGENT = COST

    out = StringIO()
    call_command("gas", "--agent", scene.agent.id, stdout=out)

    assert json.loads(out.getvalue().splitlines()[-1]) == {
        "budget": "0.25",
        "gas": [
            {
                "agentId": scene.agent.id,
                "chain": scene.chain.name,
                "today": "0.25",
                "ever": "0.25",
                "isBudgetUsedUp": False,
            }
        ],
    }
    with pytest.raises(CommandError, match="There is no agent nobody"):
        call_command("gas", "--agent", "nobody", stdout=out)


def test_a_budget_is_used_up_when_it_may_not_be_enough_for_the_next_one(scene, settings):
    settings.GAS_BUDGET_PER_AGENT = 3 * MOST_COST
    Relayer.objects.filter(chain=scene.chain.name).update(most_cost=MOST_COST)
    scene.pay()
    scene.pay()
    use = use_of(scene)
    assert use is not None
    assert not use.is_budget_used_up

    scene.pay()

    use = use_of(scene)
    assert use is not None
    assert use.is_budget_used_up


# --- On real chains ---------------------------------------------------------------------------------------------------
def test_on_a_real_chain_all_costs_together_are_what_the_relayer_has_less(real, localnet):
    localnet.observe()
    before = gas_money(localnet)
    payments = [real(), *(real(asset=asset) for asset in localnet.assets)]
    rows = Settlement.objects.filter(payment__in=payments)
    assert all(row.agent_id and row.most_cost for row in rows)

    localnet.drain()
    read_costs(localnet.caip2, localnet.adapter)

    costs = [(row.cost, row.most_cost) for row in rows.all()]
    assert all(0 < cost <= most for cost, most in costs)
    localnet.observe()
    assert sum(cost for cost, _ in costs) == before - gas_money(localnet)


def gas_money(localnet: Localnet) -> Decimal:
    balance: Decimal | None = Relayer.objects.get(chain=localnet.caip2, number=0).gas_balance
    assert balance is not None
    return balance


# --- Nodes that lie ---------------------------------------------------------------------------------------------------
@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    made = [Node(), Node(), Node()]
    yield made
    for node in made:
        node.close()


def said(gas_used: int = 80_000, **changes: Any) -> dict[str, Any]:
    facts = {"gasUsed": hex(gas_used), "effectiveGasPrice": hex(2 * GWEI)}
    return receipt(TX, []) | facts | changes


def costs_told(nodes: list[Node], *answers: Any, block_number: int | None = 5) -> dict[str, Decimal]:
    truth = Truth(TX, order_of(), time.time())
    for node, answer in zip(nodes, answers, strict=True):
        node.answers = truth.answers(eth_getTransactionReceipt=answer, eth_getTransactionCount=hex(1))
    sought = TransactionQuery(TX, b"", Submitter(0, "0xrelayer", 0), None, block_number, hash_of(5))
    return adapter(*nodes).find_costs([sought], Finality(10, utc_now(), newest=12))


HONEST = {TX: Decimal("0.00016")}


def test_a_cost_is_gas_times_its_price_and_what_a_rollup_takes_on_top(nodes):
    assert costs_told(nodes[:1], said()) == HONEST
    assert costs_told(nodes[:1], said(l1Fee=hex(GWEI))) == {TX: Decimal("0.000160001")}


@pytest.mark.parametrize("lie", [said(0), said(10**9), said(l1Fee=hex(10**21)), None, NOT_THERE, {}, said(gasUsed=-1)])
def test_a_node_alone_can_neither_inflate_a_cost_nor_hide_it(nodes, lie):
    for answers in ((lie, said(), said()), (said(), lie, said())):
        assert costs_told(nodes, *answers) == HONEST
    # Of two nodes that contradict each other neither is believed: it stays at its most.
    assert costs_told(nodes[:2], lie, said()) == {}


def test_a_receipt_from_a_block_that_is_not_final_tells_no_cost_yet(nodes):
    assert costs_told(nodes[:2], *[said(blockNumber=hex(11))] * 2) == {}


def test_only_what_is_in_no_block_while_its_nonce_is_used_has_cost_nothing(nodes):
    assert costs_told(nodes[:2], None, None, block_number=None) == {TX: Decimal(0)}
    # In a block, as the chain itself said: a node that forgets receipts does not tell.
    assert costs_told(nodes[:2], None, None, block_number=5) == {}


def test_a_costly_answer_is_counted_once_however_often_it_is_noted(scene):
    payment = scene.pay()
    settle(scene, payment)
    row = transaction_of(payment)

    assert [record_costs({row.pk: COST}), record_costs({row.pk: COST})] == [1, 0]
    assert spent(scene) == (COST, COST)
