"""What the Solana adapter remembers of payees that are paid tokens, from one look to the next."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.transaction import Transaction

from chains.port import IncludedPayment
from chains.solana.adapter import SolanaChain
from chains.solana.derivation import TOKEN_2022_PROGRAM, TOKEN_PROGRAM, associated_account
from chains.solana.instructions import Token, pay_token
from foundation.kernel.assets import Asset
from tests.support.fake_solana_nodes import (
    LEAST,
    MINTS,
    PROGRAMS,
    RELAYER,
    RENT,
    SIGNERS,
    SYSTEM_PROGRAM,
    Truth,
    account,
    adapter,
    address,
    tell,
)
from tests.support.solana_vm import PYUSD, mint_data, token_data

# What is known of an account: whether it was opened once, and whether it is closed.
NEVER, OPEN, CLOSED = (False, False), (True, False), (True, True)


class Payee:
    """A payee of a token, whose account there is or not; and what is known of it from look to look."""

    def __init__(self, asset: Asset = Asset.USDC) -> None:
        self.address, self.asset = address(), asset
        self.known: dict[str, Any] = {}

    @property
    def account(self) -> str:
        return str(associated_account(Pubkey.from_string(self.address), MINTS[self.asset], PROGRAMS[self.asset]))

    def opened(self, holder: str | None = None, **changes: Any) -> dict[str, Any]:
        """Make its account as it is once it is open."""
        extensions = PYUSD if self.asset is Asset.PYUSD else None
        data = token_data(MINTS[self.asset], Pubkey.from_string(holder or self.address), 0, extensions, None)
        return account(data, **{"owner": str(PROGRAMS[self.asset]), **changes})

    def look(self, chain: SolanaChain, *landed: IncludedPayment) -> tuple[bool, bool]:
        """Look at it; tells whether its account is known to have been opened, and to be closed."""
        self.known = json.loads(
            json.dumps(chain.payee_accounts.observe_payees([(self.address, self.asset)], self.known, lambda _: landed))
        )
        state = self.known[self.address]
        return self.account in state["opened"], self.account in state["closed"]


@pytest.fixture
def payee() -> Payee:
    return Payee()


def is_final_or_not(truth: Truth, at_final: Any, now: Any, its: str) -> dict[str, Any]:
    """Answer as a node to which an account is another in the final block than in the newest one."""

    def answer(many: Sequence[str], config: dict[str, Any]) -> Any:
        truth.accounts[its] = at_final if config["commitment"] == "finalized" else now
        return truth.context([truth.account(one, config) for one in many], config)

    return {"getMultipleAccounts": answer}


def paid_into(payee: Payee, *, is_final: bool) -> IncludedPayment:
    """Make a payment of ours to a payee that is in a block."""
    token = Token(MINTS[payee.asset], PROGRAMS[payee.asset], 6)
    instructions = pay_token(SIGNERS, token, Pubkey.from_string(payee.address), 1, "pay_1", makes_account=True)
    return IncludedPayment(bytes(Transaction.new_unsigned(Message(instructions, RELAYER))), is_final)


def test_of_payees_in_sol_it_is_seen_what_they_have(node, truth):
    full, empty = address(), address()
    truth.accounts[full] = account(lamports=5)

    seen = tell([node], truth).payee_accounts.observe_payees([(full, Asset.SOL), (empty, Asset.SOL)], {}, lambda _: ())

    assert {payee: state["lamports"] for payee, state in seen.items()} == {full: 5, empty: 0}


@pytest.mark.parametrize("asset", [Asset.USDC, Asset.PYUSD])
def test_an_account_that_a_payee_has_closed_is_remembered_until_it_opens_it_again(node, truth, asset):
    payee = Payee(asset)
    seen = []
    for is_there in (False, True, False, False, True, False):
        truth.accounts[payee.account] = payee.opened() if is_there else None
        seen.append(payee.look(tell([node], truth)))

    assert seen == [NEVER, OPEN, CLOSED, CLOSED, OPEN, CLOSED]


@pytest.mark.parametrize(
    "left",
    [
        {"owner": SYSTEM_PROGRAM, "lamports": LEAST},
        {"owner": SYSTEM_PROGRAM, "lamports": RENT},
        {"owner": str(TOKEN_2022_PROGRAM)},
    ],
)
def test_what_belongs_to_another_program_than_the_mint_is_not_open(node, truth, payee, left):
    truth.accounts[payee.account] = payee.opened(**left)
    assert payee.look(tell([node], truth)) == NEVER
    truth.accounts[payee.account] = payee.opened()
    payee.look(tell([node], truth))
    truth.accounts[payee.account] = account(lamports=LEAST)

    assert payee.look(tell([node], truth)) == CLOSED


def test_an_account_that_its_payee_gave_away_is_not_paid_into(node, truth, payee):
    truth.accounts[payee.account] = payee.opened()
    payee.look(tell([node], truth))
    truth.accounts[payee.account] = payee.opened(holder=address())

    assert payee.look(tell([node], truth)) == CLOSED


def test_that_an_account_is_open_is_remembered_only_of_the_final_block(node, truth, payee):
    soon = is_final_or_not(truth, None, payee.opened(), payee.account)
    assert payee.look(tell([node], truth, 0, **soon)) == NEVER
    truth.accounts[payee.account] = payee.opened()

    assert payee.look(tell([node], truth)) == OPEN


def test_whether_what_was_opened_is_closed_is_seen_in_the_newest_block(node, truth, payee):
    truth.accounts[payee.account] = payee.opened()
    payee.look(tell([node], truth))

    just_closed = is_final_or_not(truth, payee.opened(), None, payee.account)
    just_opened = is_final_or_not(truth, None, payee.opened(), payee.account)

    assert payee.look(tell([node], truth, 0, **just_closed)) == CLOSED
    assert payee.look(tell([node], truth, 0, **just_opened)) == OPEN


@pytest.mark.parametrize("liar", [0, 1])
def test_what_one_node_alone_says_of_a_payee_changes_nothing(nodes, truth, payee, liar):
    lying = Truth()
    lying.accounts[payee.account] = payee.opened()
    says_it_is_open = {"getMultipleAccounts": lying.answers()["getMultipleAccounts"]}
    assert payee.look(tell(nodes, truth, liar, **says_it_is_open)) == NEVER
    assert payee.look(tell(nodes, truth)) == NEVER

    truth.accounts[payee.account] = payee.opened()
    assert payee.look(tell(nodes, truth)) == OPEN
    says_it_is_closed = {"getMultipleAccounts": Truth().answers()["getMultipleAccounts"]}
    assert payee.look(tell(nodes, truth, liar, **says_it_is_closed)) == OPEN

    truth.accounts[payee.account] = None
    assert payee.look(tell(nodes, truth)) == CLOSED
    lying.accounts[payee.account] = payee.opened()
    assert payee.look(tell(nodes, truth, liar, **says_it_is_open)) == CLOSED


def test_nodes_that_contradict_each_other_about_one_payee_agree_about_the_others(nodes, truth, payee):
    other, in_sol = Payee(), address()
    truth.accounts |= {other.account: other.opened(), in_sol: account(lamports=5)}
    lying = Truth(accounts=truth.accounts | {payee.account: payee.opened()})
    lies = {"getMultipleAccounts": lying.answers()["getMultipleAccounts"]}
    payees = [(payee.address, Asset.USDC), (other.address, Asset.USDC), (in_sol, Asset.SOL)]

    seen = tell(nodes, truth, 1, **lies).payee_accounts.observe_payees(payees, {}, lambda _: ())

    assert [seen[one]["opened"] for one in (payee.address, other.address)] == [[], [other.account]]
    assert seen[in_sol]["lamports"] == 5


def test_while_one_of_two_nodes_does_not_answer_what_is_known_of_a_payee_stays(nodes, truth, payee):
    truth.accounts[payee.account] = payee.opened()
    silent = {"getMultipleAccounts": {"code": -32000, "message": "Busy"}}

    assert payee.look(tell(nodes, truth, 0, **silent)) == NEVER
    assert payee.look(tell(nodes, truth)) == OPEN
    truth.accounts[payee.account] = None
    assert payee.look(tell(nodes, truth, 1, **silent)) == OPEN
    assert payee.look(tell(nodes, truth)) == CLOSED


@pytest.mark.parametrize("is_final", [True, False])
def test_an_account_that_our_payment_made_counts_as_opened_and_is_remembered_once_that_is_final(
    node, truth, payee, is_final
):
    assert payee.look(tell([node], truth), paid_into(payee, is_final=is_final)) == (is_final, True)
    assert payee.look(tell([node], truth)) == (CLOSED if is_final else NEVER)


def test_an_account_that_our_payment_made_may_be_paid_into_before_that_is_final(node, truth, payee):
    soon = is_final_or_not(truth, None, payee.opened(), payee.account)

    assert payee.look(tell([node], truth, 0, **soon), paid_into(payee, is_final=False)) == NEVER


def test_what_landed_for_others_says_nothing_of_a_payee(node, truth, payee):
    assert payee.look(tell([node], truth), paid_into(Payee(), is_final=True)) == NEVER
    assert payee.look(tell([node], truth), paid_into(Payee(Asset.PYUSD), is_final=True)) == NEVER


def test_it_is_asked_what_landed_only_for_payees_whose_account_was_never_opened(node, truth, payee):
    other, in_sol = Payee(), address()
    truth.accounts[payee.account] = payee.opened()
    payees = [(payee.address, Asset.USDC), (other.address, Asset.USDC), (in_sol, Asset.SOL)]
    asked: list[Any] = []

    def find_landed(addresses: Any) -> Any:
        asked.append(list(addresses))
        return ()

    known = tell([node], truth).payee_accounts.observe_payees(payees, {}, find_landed)
    known = tell([node], truth).payee_accounts.observe_payees(payees, known, find_landed)
    tell([node], truth).payee_accounts.observe_payees(payees[::2], known, find_landed)

    assert asked == [[payee.address, other.address], [other.address]]


def test_what_was_opened_under_another_mint_is_not_closed_under_this_one(node, truth, payee):
    truth.accounts[payee.account] = payee.opened()
    payee.look(tell([node], truth))
    before = payee.account
    mint = Keypair().pubkey()
    truth.accounts[str(mint)] = account(mint_data(), str(TOKEN_PROGRAM))
    node.answers = truth.answers()
    chain = adapter(node, tokens={Asset.USDC: str(mint)})

    state = chain.payee_accounts.observe_payees([(payee.address, Asset.USDC)], payee.known, lambda _: ())[payee.address]

    assert state == {"opened": [before], "closed": []}


def test_what_an_earlier_version_wrote_down_of_payees_by_asset_is_forgotten(node, truth, payee):
    payee.known = {payee.address: {"opened": ["USDC", "PYUSD"], "closed": ["USDC"]}}
    assert payee.look(tell([node], truth)) == NEVER
    assert payee.known[payee.address] == {"opened": [], "closed": []}

    payee.known = {payee.address: {"lamports": 5}}
    assert payee.look(tell([node], truth)) == NEVER


def test_nobody_is_asked_about_no_payees(node, truth):
    assert tell([node], truth).payee_accounts.observe_payees([], {}, lambda _: ()) == {}
    assert node.asked.count("getMultipleAccounts") == 0


def test_many_payees_are_looked_at_a_hundred_at_a_time(node, truth):
    many = [(address(), Asset.SOL) for _ in range(250)]

    assert len(tell([node], truth).payee_accounts.observe_payees(many, {}, lambda _: ())) == 250
    assert [len(call["params"][0]) for call in node.requests[-1]] == [100, 100, 50]
