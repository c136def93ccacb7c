"""Observe payees: whether an address can be paid, and which of its token accounts are open."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chains.catalogue import ServedChain
from chains.port import IncludedPayment
from chains.rpc.agreement import find_agreed, most_common
from chains.rpc.nodes import Nodes
from chains.solana.answers import (
    CONFIRMED,
    FINALIZED,
    Status,
    accounts_calls,
    read_accounts,
    read_statuses,
    statuses_calls,
)
from chains.solana.derivation import TOKEN_PROGRAMS, EscrowSigners
from chains.solana.lamports import read_lamports
from chains.solana.payee_accounts import (
    HOLDER_PART,
    LOOKED_AT_BYTES,
    PayeeAccount,
    agree_on_open,
    find_payee_objection,
    follow_payees,
    payee_accounts,
    read_id,
    read_paid,
)
from chains.solana.token_accounts import (
    possible_accounts,
    read_asset_mint,
)
from foundation.kernel.assets import Asset


class SolanaPayees:
    """Reads the accounts of payees; see `PayeeObserver` for each method."""

    def __init__(self, nodes: Nodes, served: ServedChain, signers: EscrowSigners) -> None:
        self._nodes = nodes
        self._served = served
        self._signers = signers

    def observe_payees(
        self,
        payees: Sequence[tuple[str, Asset]],
        known: Mapping[str, Mapping[str, Any]],
        find_included: Callable[[Sequence[str]], Sequence[IncludedPayment]],
    ) -> dict[str, dict[str, Any]]:
        if not payees:
            return {}
        accounts = payee_accounts(payees, self._read_programs(), self._served.tokens)
        new = [one.payee for one in accounts if not one.was_opened(known)]
        # Read before nodes are asked, so that the nodes know every payment that is included by now.
        paid = read_paid(self._leave_out_failed(find_included(new))) if new else {}
        lamports = read_lamports(self._nodes, [address for address, asset in payees if asset is Asset.SOL])
        return follow_payees(lamports, accounts, self._find_open(accounts, known, paid), paid, known)

    def find_objection(self, address: str) -> str | None:
        escrows = [str(self._signers.escrow(program)) for program in TOKEN_PROGRAMS]
        own = [*escrows, *possible_accounts(self._signers, list(self._served.tokens.values()))]
        if address in own:
            return "It is an account of the escrow."
        if address in map(str, self._signers.keys):
            return "It is the address of our own relayer, policy signer or owner."
        part = {"dataSlice": {"offset": 0, "length": LOOKED_AT_BYTES}, **CONFIRMED}
        return self._nodes.read_agreed(
            accounts_calls([address], part),
            lambda answers: find_payee_objection(read_accounts(answers, [address])[address]),
        )

    def _leave_out_failed(self, payments: Sequence[IncludedPayment]) -> list[IncludedPayment]:
        """Leave out those of which nodes agree that their transaction has failed: it made no account.

        One payment can have spoilt a transaction of several, and has then closed nobody's account but its own.
        """
        txs = list(dict.fromkeys(read_id(one.raw) for one in payments if not one.is_final))
        if not txs:
            return list(payments)
        replies = self._nodes.read_each(statuses_calls(txs), lambda answers: read_statuses(answers, txs))
        failed = {tx for tx in txs if find_agreed([_has_failed(said[tx][1]) for said in replies], self._nodes.quorum)}
        return [one for one in payments if one.is_final or read_id(one.raw) not in failed]

    def _read_programs(self) -> dict[Asset, str]:
        """Read the token program of each asset; assets that must not be paid with are left out."""
        mints = list(self._served.tokens.values())

        def read(answers: Sequence[Any]) -> dict[Asset, str]:
            there = read_accounts(answers, mints)
            found = {asset: read_asset_mint(asset, mint, there[mint]) for asset, mint in self._served.tokens.items()}
            return {asset: mint.program for asset, mint in found.items() if mint.objection is None}

        return most_common(self._nodes.read_each(accounts_calls(mints, CONFIRMED), read))

    def _find_open(
        self, accounts: Sequence[PayeeAccount], known: Mapping[str, Mapping[str, Any]], paid: Mapping[str, bool]
    ) -> dict[str, bool]:
        """Find which token accounts are open, by address, where nodes agree on it.

        An account that was never open is read as of the final block, so that its opening cannot be undone.
        """
        if not accounts:
            return {}
        new = [one.address for one in accounts if not one.was_opened(known) and one.address not in paid]
        old = [one.address for one in accounts if one.was_opened(known) or one.address in paid]
        calls = [*accounts_calls(old, HOLDER_PART | CONFIRMED), *accounts_calls(new, HOLDER_PART | FINALIZED)]
        replies = self._nodes.read_each(calls, lambda answers: read_accounts(answers, [*old, *new]))
        return agree_on_open(accounts, replies, self._nodes.quorum)


def _has_failed(status: Status | None) -> bool:
    return status is not None and status.is_confirmed and status.error is not None
