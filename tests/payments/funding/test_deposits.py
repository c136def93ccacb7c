"""Deposits: found in final blocks, credited once, whatever crashes, repeats, is refused or is contradicted."""

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from decimal import Decimal
from threading import Barrier
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection
from eth_abi.abi import encode
from eth_account import Account
from eth_utils.crypto import keccak

from allowance.kernel.assets import Asset
from allowance.kernel.errors import OperationRefused
from allowance.kernel.times import utc_now
from chains.catalogue import Chain, ServedChain, Vm
from chains.evm.adapter import EvmChain
from chains.port import ChainUnavailable, EscrowSearch
from ledger.models import BalanceMovement, MovementKind
from ledger.operations import fund_agent, move_balance
from payments.funding.deposits import credit_deposit
from payments.funding.expected_holdings import find_deposits
from payments.models import Deposit, DepositCursor, Payment, Withdrawal
from payments.reconciling.escrow_history import LONGEST, MOST_AT_ONCE, search_history
from payments.reconciling.verification import Progress, verify_agent
from policy.models import Agent
from policy.operations import Limits, create_agent
from tests.support.chains import (
    LOCALNET,
    FakeChain,
    call,
    escrow,
    make_fake_chain,
    make_service_on,
    pay_on,
    send_as_owner,
    token,
)
from tests.support.deposits import DEPOSITOR, TOKEN, FindOurPayments, make_deposit_aside, make_searched_chain, sighting
from tests.support.factories import decide, make_agent, new_name
from tests.support.invariants import check_agent
from tests.support.localnets import EVM, SOLANA, Localnet


def cursor(chain: FakeChain) -> int:
    return DepositCursor.objects.get(chain=chain.name).block_number or 0


def balance(agent: Agent) -> Any:
    return Agent.objects.get(pk=agent.pk).balance


def problems(agent: Agent) -> list[str]:
    return [found.problem for found in verify_agent(agent.id, Progress())]


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Do something in as many threads, each with its own connection, from the same moment on."""
    start = Barrier(count)

    def run(number: int) -> Any:
        start.wait()
        try:
            return work(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


# --- Crediting --------------------------------------------------------------------------------------------------------
def test_a_deposit_is_credited_with_a_movement_that_names_its_transaction(agent):
    found = sighting(agent, "12.345678")
    chain = make_searched_chain(found)

    assert search_history(chain.name, chain) == 1

    deposit = Deposit.objects.get(tx=found.tx)
    movement = deposit.movement
    assert movement
    assert balance(agent) == Decimal("1012.345678")
    assert (movement.kind, movement.amount, movement.author) == ("funding", Decimal("12.345678"), "deposit")
    assert (movement.reason, movement.chain) == (found.tx, chain.name)
    assert (deposit.state, deposit.agent_id, deposit.note, deposit.depositor) == ("credited", agent.id, "", DEPOSITOR)
    assert cursor(chain) == 100
    assert problems(agent) == []
    check_agent(agent.id)


def test_only_final_blocks_are_searched(agent):
    chain = make_searched_chain(sighting(agent, block_number=100), sighting(agent, block_number=101))

    assert search_history(chain.name, chain) == 1
    assert max(last for _, last in chain.asked_ranges) == 100
    chain.finality = replace(chain.finality, block_number=101)
    assert search_history(chain.name, chain) == 1

    assert balance(agent) == 1010


def test_what_was_searched_is_not_searched_again(agent):
    chain = make_searched_chain(sighting(agent))
    search_history(chain.name, chain)
    chain.asked_ranges.clear()

    assert search_history(chain.name, chain) == 0
    assert chain.asked_ranges == []


def test_a_cursor_that_was_set_back_credits_nothing_twice(agent):
    chain = make_searched_chain(sighting(agent), sighting(agent, log_index=3))
    search_history(chain.name, chain)
    DepositCursor.objects.filter(chain=chain.name).update(block_number=7)
    chain.deposits.append(sighting(agent, "100", block_number=60))  # as if it had been missed

    assert search_history(chain.name, chain) == 1

    assert (balance(agent), cursor(chain)) == (1110, 100)
    assert Deposit.objects.filter(agent=agent).count() == 3


def test_a_cursor_that_somebody_moves_meanwhile_stays_where_they_put_it(agent):
    class Moving(FakeChain):
        def search_escrow(self, first_block: int, last_block: int, find_our_payments: FindOurPayments) -> EscrowSearch:
            if first_block == 41:
                DepositCursor.objects.filter(chain=self.name).update(block_number=7)
            return super().search_escrow(first_block, last_block, find_our_payments)

    chain = Moving(make_searched_chain(up_to=40).name, deposits=[sighting(agent, block_number=n) for n in (8, 41)])

    assert search_history(chain.name, chain) == 0
    assert (balance(agent), cursor(chain)) == (1000, 7)
    assert search_history(chain.name, chain) == 2
    assert (balance(agent), cursor(chain)) == (1010, 100)


def test_several_deposits_of_one_transaction_are_all_credited(agent):
    first = sighting(agent, "1")
    chain = make_searched_chain(first, replace(first, log_index=1, amount=Decimal(2)))

    search_history(chain.name, chain)

    assert balance(agent) == 1003


def test_the_same_transaction_id_on_two_chains_is_two_deposits(agent):
    found = sighting(agent)
    for chain in (make_searched_chain(found), make_searched_chain(found)):
        search_history(chain.name, chain)

    assert balance(agent) == 1010


def test_what_breaks_off_in_the_middle_leaves_nothing_and_is_done_later(agent):
    # The database refuses a deposit of nothing, after the first one was credited.
    good, bad = sighting(agent), sighting(agent, "0", log_index=1)
    chain = make_searched_chain(good, bad)

    with pytest.raises(IntegrityError):
        search_history(chain.name, chain)
    assert (balance(agent), cursor(chain)) == (1000, 32)
    assert not Deposit.objects.filter(chain=chain.name).exists()

    chain.deposits.remove(bad)
    search_history(chain.name, chain)
    assert (balance(agent), cursor(chain)) == (1005, 100)


def test_more_deposits_than_one_transaction_takes_are_all_credited(agent):
    found = [sighting(agent, "0.01", block_number=40 + number % 2) for number in range(MOST_AT_ONCE + 1)]
    chain = make_searched_chain(*found)

    assert search_history(chain.name, chain) == len(found)

    assert balance(agent) == 1000 + len(found) * Decimal("0.01")
    assert chain.asked_ranges[-1][1] == 100


# --- Nodes ------------------------------------------------------------------------------------------------------------
def test_a_range_that_is_refused_is_halved_and_none_is_left_out(agent):
    chain = make_searched_chain(*(sighting(agent, "1", block_number=number) for number in (1, 6, 7, 99, 100)))
    chain.longest_range = 5

    assert search_history(chain.name, chain) == 5

    answered = [one for one in chain.asked_ranges if one[1] - one[0] < 5]
    assert [number for first, last in answered for number in range(first, last + 1)] == list(range(1, 101))
    assert balance(agent) == 1005


def test_a_node_that_gives_one_block_at_a_time_is_enough(agent):
    chain = make_searched_chain(sighting(agent), up_to=90)
    chain.deposits = [sighting(agent, block_number=number) for number in range(91, 101)]
    chain.longest_range = 1

    assert search_history(chain.name, chain) == 10


def test_a_long_way_is_gone_in_ever_longer_ranges(db):
    chain = make_searched_chain()
    chain.finality = replace(chain.finality, block_number=10 * LONGEST)

    search_history(chain.name, chain)

    lengths = [last - first + 1 for first, last in chain.asked_ranges]
    assert lengths[:3] == [32, 64, 128]
    assert max(lengths) == LONGEST
    assert cursor(chain) == 10 * LONGEST


def test_nodes_that_contradict_each_other_credit_nothing_and_hold_the_cursor_before_the_block(agent):
    chain = make_searched_chain(
        sighting(agent, "1", block_number=49), sighting(agent, "10"), sighting(agent, "100", block_number=51)
    )
    chain.contradicted = {50}

    for _ in range(2):
        with pytest.raises(ChainUnavailable):
            search_history(chain.name, chain)
        assert (balance(agent), cursor(chain)) == (1001, 49)

    chain.contradicted = set()
    assert search_history(chain.name, chain) == 2
    assert balance(agent) == 1111


def test_a_chain_that_is_away_moves_nothing(agent):
    chain = make_searched_chain(sighting(agent))
    chain.is_away = True

    with pytest.raises(ChainUnavailable):
        search_history(chain.name, chain)

    assert (balance(agent), cursor(chain)) == (1000, 0)


def test_a_deposit_in_a_block_that_was_not_asked_about_is_not_believed(agent):
    class Liar(FakeChain):
        def search_escrow(self, first_block: int, last_block: int, find_our_payments: FindOurPayments) -> EscrowSearch:
            return EscrowSearch(self.deposits)

    chain = Liar(make_searched_chain().name, deposits=[sighting(agent, block_number=101)])

    with pytest.raises(ChainUnavailable):
        search_history(chain.name, chain)

    assert (balance(agent), cursor(chain)) == (1000, 0)


# --- Aside ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"named_agent": "nobody"}, "There is no agent of this name."),
        ({"named_agent": "x" * 1024}, "There is no agent of this name."),
        ({"named_agent": "\ufffd\n\u202e"}, "There is no agent of this name."),
        ({"asset": None, "amount": Decimal(2**256 - 1)}, f"The token {TOKEN} is not served."),
        ({"asset": Asset.EURC}, "in USDC, the deposit is in EURC."),
    ],
    ids=["unknown", "long", "unreadable", "token", "asset"],
)
def test_what_can_be_credited_to_nobody_is_kept_aside(agent, change, note):
    found = sighting(agent, **change)
    chain = make_searched_chain(found)

    assert search_history(chain.name, chain) == 1

    deposit = Deposit.objects.get(tx=found.tx)
    assert (deposit.state, deposit.agent, deposit.movement) == ("aside", None, None)
    assert deposit.note.endswith(note)
    assert (deposit.named_agent, deposit.amount) == (found.named_agent, found.amount)
    assert (balance(agent), cursor(chain)) == (1000, 100)


@pytest.mark.parametrize("change", [str.upper, " {}".format, "{}\n".format, lambda name: name[:-1]])
def test_an_agent_is_named_exactly_or_not_at_all(agent, change):
    chain = make_searched_chain(sighting(change(agent.id)))

    search_history(chain.name, chain)

    assert balance(agent) == 1000
    assert Deposit.objects.get(chain=chain.name).state == "aside"


def test_bytes_that_are_no_text_name_no_agent_that_looks_like_them(db):
    limits = Limits(Decimal(1), Decimal(1), Decimal(1))
    agent = create_agent(f"{new_name('agent')}\ufffd", asset=Asset.USDC, limits=limits, by="test")
    chain = make_searched_chain(sighting(agent))

    search_history(chain.name, chain)

    assert balance(agent) == 0
    assert Deposit.objects.get(chain=chain.name).state == "aside"


@pytest.fixture
def put_aside(db) -> Deposit:
    return make_deposit_aside()


def test_staff_credit_what_was_put_aside(put_aside, agent):
    returned = credit_deposit(put_aside.pk, agent_id=agent.id, by="fiona")

    put_aside.refresh_from_db()
    assert returned == put_aside
    assert (put_aside.state, put_aside.agent_id, balance(agent)) == ("credited", agent.id, 1007)
    assert put_aside.movement
    assert (put_aside.movement.author, put_aside.movement.reason) == ("fiona", put_aside.tx)
    assert put_aside.note == "There is no agent of this name."
    assert problems(agent) == []


def test_what_was_credited_is_not_credited_again(put_aside, agent):
    credit_deposit(put_aside.pk, agent_id=agent.id, by="fiona")

    with pytest.raises(OperationRefused, match=f"was credited to {agent.id} already"):
        credit_deposit(put_aside.pk, agent_id=make_agent().id, by="fiona")

    assert balance(agent) == 1007


def test_what_counts_as_moved_from_our_own_escrow_is_credited_to_nobody(put_aside, agent):
    """Anybody can write the reference of a move into a memo; the books count that deposit as surplus."""
    facts = {"reference": put_aside.named_agent, "chain": put_aside.chain, "asset": "USDC", "amount": 7}
    Withdrawal.objects.create(**facts, recipient="r", author="a", reason="r", created_at=utc_now())
    assert put_aside not in find_deposits()

    with pytest.raises(OperationRefused, match="adjust the balance"):
        credit_deposit(put_aside.pk, agent_id=agent.id, by="fiona")

    put_aside.refresh_from_db()
    assert (put_aside.state, balance(agent)) == ("aside", 1000)


def test_a_deposit_is_not_credited_to_whom_it_does_not_fit(put_aside, agent):
    eurc = make_agent(asset=Asset.EURC)
    for deposit_id, agent_id, sentence in (
        (put_aside.pk, "nobody", "There is no agent nobody"),
        (put_aside.pk, eurc.id, "in EURC, the deposit is in USDC"),
        (0, agent.id, "There is no deposit 0"),
    ):
        with pytest.raises(OperationRefused, match=sentence):
            credit_deposit(deposit_id, agent_id=agent_id, by="fiona")

    put_aside.refresh_from_db()
    assert (put_aside.state, balance(eurc)) == ("aside", 1000)


def test_a_token_that_is_not_served_is_credited_to_nobody(agent):
    found = sighting(agent, asset=None)
    chain = make_searched_chain(found)
    search_history(chain.name, chain)

    with pytest.raises(OperationRefused, match="a token that is not served"):
        credit_deposit(Deposit.objects.get(tx=found.tx).pk, agent_id=agent.id, by="fiona")


# --- At once ----------------------------------------------------------------------------------------------------------
@dataclass
class MeetingChain(FakeChain):
    """A chain whose watchers all know what is there before any of them credits it."""

    meeting: Barrier | None = None

    def search_escrow(self, first_block: int, last_block: int, find_our_payments: FindOurPayments) -> EscrowSearch:
        found = super().search_escrow(first_block, last_block, find_our_payments)
        if first_block == 1 and self.meeting:
            self.meeting.wait(timeout=60)
        return found


@pytest.mark.usefixtures("committed")
def test_two_watchers_at_once_credit_once():
    agent = make_agent()
    chain = MeetingChain(make_searched_chain().name, meeting=Barrier(2))
    chain.deposits += [sighting(agent, block_number=number) for number in (1, 2, 99)]

    counts = together(2, lambda _: search_history(chain.name, chain))

    assert (sum(counts), balance(agent), cursor(chain)) == (3, 1015, 100)
    assert problems(agent) == []


@pytest.mark.usefixtures("committed")
def test_staff_at_once_credit_once():
    found, agents = sighting("nobody", "7"), [make_agent() for _ in range(4)]
    chain = make_searched_chain(found)
    search_history(chain.name, chain)
    deposit_id = Deposit.objects.get(tx=found.tx).pk

    def credit(number: int) -> bool:
        try:
            credit_deposit(deposit_id, agent_id=agents[number].id, by="fiona")
        except OperationRefused:
            return False
        return True

    assert together(4, credit).count(True) == 1
    assert sorted(balance(agent) for agent in agents) == [1000, 1000, 1000, 1007]


@pytest.mark.usefixtures("committed")
def test_watchers_payments_and_fundings_of_the_same_agents_do_not_stand_in_each_others_way():
    agents = [make_agent() for _ in range(4)]
    one = make_searched_chain(*(sighting(agent, "1", block_number=n) for n in range(1, 101) for agent in agents))
    other = make_searched_chain(
        *(sighting(agent, "1", block_number=n) for n in range(1, 101) for agent in reversed(agents))
    )
    service = make_service_on(one)

    def work(number: int) -> None:
        if number < 2:
            chain = (one, other)[number]
            while cursor(chain) < 100:  # on a slow machine one run is over before
                search_history(chain.name, chain)
            return
        for turn in range(12):
            pay_on(one, agents[(turn + number) % 4], service, "1")
            fund_agent(agents[(turn + number) % 4].id, amount=Decimal(1), by="test")

    together(5, work)

    assert (cursor(one), cursor(other)) == (100, 100)
    assert [balance(agent) for agent in agents] == [1200] * 4
    for agent in agents:
        check_agent(agent.id)
        assert problems(agent) == []


# --- Evidence ---------------------------------------------------------------------------------------------------------
def test_a_movement_without_its_deposit_is_found(agent):
    movement = move_balance(agent, kind=MovementKind.FUNDING, amount=Decimal(3), by="deposit", reason="0xabc")

    assert problems(agent) == [f"Movement {movement.id} credits a deposit that never came in."]


@pytest.mark.parametrize("change", [{"amount": Decimal(6)}, {"tx": "0xabc"}, {"chain": "another"}, {"asset": "EURC"}])
def test_a_movement_that_is_not_what_came_in_is_found(agent, change):
    found = sighting(agent)
    chain = make_searched_chain(found)
    search_history(chain.name, chain)
    Deposit.objects.filter(tx=found.tx).update(**change)

    (problem,) = problems(agent)
    assert "is not what came in with the deposit" in problem


def test_a_deposit_that_is_credited_by_a_payment_is_found(agent):
    found = sighting(agent)
    chain = make_searched_chain(found)
    search_history(chain.name, chain)
    payment = pay_on(chain, agent, make_service_on(chain))
    movement = BalanceMovement.objects.get(payment_id=payment.pk)
    credited = Deposit.objects.get(tx=found.tx)
    Deposit.objects.filter(pk=credited.pk).update(movement=movement)

    assert f"The deposit {credited} is credited by a movement that credits nothing." in problems(agent)


# --- The real chains --------------------------------------------------------------------------------------------------
def search(localnet: Localnet) -> None:
    """Search a real chain up to its newest block, once that is final; it may be an old one."""
    newest = localnet.adapter.find_finality().newest
    while not DepositCursor.objects.filter(chain=localnet.caip2, block_number__gte=newest).exists():
        localnet.mine()
        search_history(localnet.caip2, localnet.adapter)


ON_CHAIN = [(EVM, Asset.EURC), (SOLANA, Asset.SOL), (SOLANA, Asset.USDC), (SOLANA, Asset.PYUSD)]


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize(("localnet", "asset"), ON_CHAIN, ids=lambda one: getattr(one, "alias", one))
def test_a_deposit_on_the_chain_is_credited_to_the_agent_that_it_names(capsys, localnet, asset):
    localnet.drain()
    agent = make_agent(asset=asset)
    had = localnet.held(asset)

    call_command("deposit", agent.id, "3.25", "--chain", localnet.alias, "--no-wait")
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    search(localnet)

    assert localnet.held(asset) == had + 325 * 10 ** (asset.decimals - 2)
    assert printed == {
        "agent": agent.id, "amount": "3.25", "asset": asset, "chain": localnet.caip2, "tx": printed["tx"],
        "state": "included",
    }  # fmt: skip
    found = Deposit.objects.get(tx=printed["tx"])
    assert (found.agent_id, found.amount, found.asset) == (agent.id, Decimal("3.25"), asset)
    assert found.token == settings.CHAINS[localnet.caip2].tokens[asset]
    assert balance(agent) == Decimal("1003.25")
    DepositCursor.objects.filter(chain=localnet.caip2).update(block_number=found.block_number - 1)
    search(localnet)
    assert balance(agent) == Decimal("1003.25")
    check_agent(agent.id)
    assert problems(agent) == []


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("localnet", [EVM, SOLANA], ids=lambda one: one.alias)
def test_a_deposit_on_the_chain_that_names_nobody_is_kept_aside(capsys, localnet):
    call_command("deposit", "nobody", "0.5", "--asset", "USDC", "--chain", localnet.alias, "--no-wait")
    tx = json.loads(capsys.readouterr().out.splitlines()[-1])["tx"]
    search(localnet)

    found = Deposit.objects.get(tx=tx)
    assert (found.state, found.named_agent, found.amount) == ("aside", "nobody", Decimal("0.5"))


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("asset", [Asset.SOL, Asset.PYUSD])
def test_what_is_paid_on_the_chain_is_no_deposit(asset):
    SOLANA.drain()
    SOLANA.observe()
    search(SOLANA)
    payment = Payment.objects.get(pk=decide(make_agent(asset=asset), SOLANA.make_service(asset)).payment_id)
    before = Deposit.objects.filter(chain=SOLANA.caip2).count()

    SOLANA.drain()
    search(SOLANA)

    assert Payment.objects.get(pk=payment.pk).status == "settled"
    assert Deposit.objects.filter(chain=SOLANA.caip2).count() == before


def deposit_by_hand(name: bytes, units: int, address: str) -> str:
    owner = str(Account.from_key(settings.DEPOSIT_KEY).address)
    send_as_owner(address, call("mint(address,uint256)", owner, units))
    send_as_owner(address, call("approve(address,uint256)", escrow(), units))
    selector = keccak(text="deposit(string,address,uint256)")[:4]
    data = selector + encode(["bytes", "address", "uint256"], [name, address, units])
    return send_as_owner(escrow(), f"0x{data.hex()}")


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize(
    ("name", "kept"),
    [
        (b"\xff" * 1024, "\ufffd" * 1024),
        (b"nobody \x00\xf0\x9f\xa6\x84", "nobody \ufffd\U0001f984"),
        (b"x" * 1024, "x" * 1024),
    ],
    ids=["no text", "zero byte", "long"],
)
def test_a_deposit_on_the_chain_whose_name_is_any_bytes_is_kept_aside(name, kept):
    tx = deposit_by_hand(name, 5, token(Asset.PYUSD))
    search(EVM)

    found = Deposit.objects.get(tx=tx)
    assert (found.state, found.named_agent, found.amount) == ("aside", kept, Decimal("0.000005"))


@pytest.mark.usefixtures("committed")
def test_a_token_on_the_chain_that_is_not_served_is_kept_aside_in_base_units(settings):
    served = settings.CHAINS[LOCALNET]
    tokens = {asset: address for asset, address in served.tokens.items() if asset != Asset.USDT}
    half_blind = EvmChain(replace(served, tokens=tokens), settings.RELAYER_SEED)
    search(EVM)

    tx = deposit_by_hand(b"somebody", 17, token(Asset.USDT))
    for _ in range(2):
        EVM.mine()
    search_history(LOCALNET, half_blind)

    found = Deposit.objects.get(tx=tx)
    assert (found.state, found.asset, found.amount) == ("aside", None, 17)


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("localnet", [EVM, SOLANA], ids=lambda one: one.alias)
def test_the_command_waits_until_a_watcher_has_credited_the_deposit(capsys, localnet):
    agent, is_over = make_agent(), threading.Event()

    def work() -> None:
        try:
            while not is_over.wait(0.1):
                search_history(localnet.caip2, localnet.adapter)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        watcher = pool.submit(work)
        try:
            call_command("deposit", agent.id, "0.5", "--chain", localnet.alias)
        finally:
            is_over.set()
        watcher.result()

    written = capsys.readouterr()
    assert json.loads(written.out.splitlines()[-1])["state"] == "credited"
    assert "waiting until that is final" in written.err
    assert balance(agent) == Decimal("1000.5")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nobody", "1"], "There is no agent nobody: say with --asset"),
        (["nobody", "1", "--asset", "USDC", "--chain", "base"], "The chain base is not served here"),
        (["nobody", "1", "--asset", "USDC", "--chain", "moon"], "The chain moon is not served here"),
        (["nobody", "0.0000001", "--asset", "USDC"], "6 decimals"),
        (["nobody", "1", "--asset", "SOL", "--chain", "evm-localnet"], "SOL is not served"),
        (["nobody", "0", "--asset", "USDC"], "zero amount"),
        (["x" * 1025, "1", "--asset", "USDC"], "Depositing: "),
    ],
)
def test_the_command_refuses_in_a_sentence(db, arguments, sentence):
    with pytest.raises(CommandError, match=sentence):
        call_command("deposit", *arguments, "--no-wait")


def test_the_command_takes_the_only_test_network_with_the_asset(db, capsys):
    agent = make_agent(asset=Asset.SOL)

    call_command("deposit", agent.id, "0.5", "--no-wait")

    assert json.loads(capsys.readouterr().out.splitlines()[-1])["chain"] == SOLANA.caip2


@pytest.mark.parametrize(
    ("tokens", "named"), [([{}], "none"), ([{Asset.SOL: "a"}, {Asset.SOL: "b"}], "devnet-0, devnet-1")]
)
def test_the_command_asks_for_the_chain_where_it_does_not_follow(db, settings, tokens, named):
    settings.CHAINS = {
        f"solana:{number}": ServedChain(
            Chain(f"solana:{number}", (f"devnet-{number}",), Vm.SOLANA, is_test=True), (), "", its
        )
        for number, its in enumerate(tokens)
    }

    with pytest.raises(CommandError, match=rf"^Say with --chain where to deposit SOL: .*: {named}\.$"):
        call_command("deposit", "nobody", "1", "--asset", "SOL")


def test_the_command_needs_a_key(db, settings):
    settings.DEPOSIT_KEY = None

    with pytest.raises(CommandError, match=r"^DEPOSIT_KEY is not set"):
        call_command("deposit", "nobody", "1", "--asset", "USDC")


def test_the_command_deposits_on_test_networks_only(db, settings):
    served = settings.CHAINS[LOCALNET]
    settings.CHAINS = {LOCALNET: replace(served, chain=replace(served.chain, is_test=False))}

    with pytest.raises(CommandError, match="is not a test network"):
        call_command("deposit", "nobody", "1", "--asset", "USDC", "--chain", "evm-localnet")


def test_the_command_refuses_a_node_that_is_on_another_chain(db, settings, monkeypatch):
    served = settings.CHAINS[LOCALNET]
    other = EvmChain(replace(served, chain=replace(served.chain, caip2="eip155:31338")), settings.RELAYER_SEED)
    monkeypatch.setattr("payments.management.commands.deposit.served_chains", lambda: {LOCALNET: other})

    with pytest.raises(CommandError, match="is of chain 31337, not of 31338"):
        call_command("deposit", "nobody", "1", "--asset", "USDC")


def test_another_escrow_is_searched_from_its_own_first_block(db):
    chain = make_fake_chain()
    search_history(chain.name, chain)
    assert cursor(chain) == chain.finality.block_number

    chain.escrow, chain.first_block = "0x" + "77" * 20, 41
    chain.asked.clear()
    search_history(chain.name, chain)

    assert "search_escrow" in chain.asked
    assert DepositCursor.objects.get(chain=chain.name).escrow == chain.escrow
    assert cursor(chain) == chain.finality.block_number


def test_an_installation_that_credited_by_hand_is_not_searched_backwards(db):
    chain = make_fake_chain()
    DepositCursor.objects.create(chain=chain.name, block_number=None, moved_at=utc_now())

    search_history(chain.name, chain)

    assert "search_escrow" not in chain.asked
    assert cursor(chain) == chain.finality.block_number


def test_the_clock_rings_for_deposits():
    entry = settings.CELERY_BEAT_SCHEDULE["watch_deposits on every chain"]
    assert entry["args"] == ("payments.tasks.watch_deposits",)
