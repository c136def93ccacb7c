"""The Solana adapter: payments from token accounts of a multisig. See `ChainAdapter` for each method.

It signs (`signing`), follows what was sent (`following`), and watches what both need to know.
Source: docs/architecture.md, "One settlement's way"; docs/background.md, "Settlement on Solana".
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from statistics import median_low
from typing import Any

from solders.transaction import VersionedTransaction
from spl.token.constants import ACCOUNT_LEN

from allowance.kernel.assets import Asset
from chains.catalogue import ServedChain
from chains.port import ChainUnavailable, EscrowSearch, Finality, IncludedPayment, RelayerState
from chains.rpc.nodes import Identity, Nodes, as_two_say
from chains.rpc.transport import Call
from chains.solana.answers import (
    CONFIRMED,
    FINALIZED,
    Account,
    accounts_calls,
    read_accounts,
    read_count,
    read_units,
)
from chains.solana.blockhashes import agree_on_blockhash
from chains.solana.broadcasting import offer
from chains.solana.configuration_check import Expected, Inspection
from chains.solana.costs import find_fee, find_rent, to_coins
from chains.solana.derivation import TOKEN_PROGRAMS, EscrowSigners
from chains.solana.escrow import Escrow, FindOurs
from chains.solana.following import SolanaFollowing
from chains.solana.inspection import inspect
from chains.solana.mints import Mint
from chains.solana.payee_accounts import (
    HOLDER_PART,
    LOOKED_AT_BYTES,
    PayeeAccount,
    agree_on_open,
    follow_payees,
    object_to,
    payee_accounts,
    read_paid,
)
from chains.solana.preparing import SolanaSigning
from chains.solana.token_accounts import (
    escrow_addresses,
    look_at_mint,
    object_to_account,
    possible_accounts,
)

# What a node took but no block holds is offered again after this: leaders change every 1.6 s.
RESEND_AFTER = timedelta(seconds=2)
# About 3 s, and 4 minutes.
_DEPOSITS_TRAIL, _MOST_BLOCKS_BEHIND = 8, 600
# An escrow is a multisig of one relayer, the policy signer and the owner; without nonces one is enough.
_RELAYERS = 1
_RENT_CALLS = (("getMinimumBalanceForRentExemption", 0), ("getMinimumBalanceForRentExemption", ACCOUNT_LEN))


class SolanaChain(SolanaSigning, SolanaFollowing):
    """One Solana chain with the escrow of its signers.

    `max_unit_price` is the most that is offered for a unit of computing, in micro-lamports.
    """

    def __init__(
        self, served: ServedChain, relayer_seed: bytes, signers: EscrowSigners, max_unit_price: int = 5_000_000
    ) -> None:
        self.reference = served.chain.caip2.partition(":")[2]
        SolanaSigning.__init__(self, served, relayer_seed, signers, max_unit_price)
        identity = Identity("getGenesisHash", self.reference, is_prefix=True)
        SolanaFollowing.__init__(self, Nodes(served.rpc_urls, identity), served)
        # For what each node is asked of itself, such as which chain it is of.
        self.single_nodes = [Nodes((url,)) for url in served.rpc_urls]
        self.holder = Escrow(self.nodes, served.tokens, signers)
        self.resend_after = RESEND_AFTER
        self.deposits_trail, self.most_blocks_behind = _DEPOSITS_TRAIL, _MOST_BLOCKS_BEHIND

    @property
    def nonces(self) -> None:
        return None

    @property
    def most_relayers(self) -> int:
        return _RELAYERS

    def observe(self) -> dict[str, Any]:
        finality = self.find_finality()  # who is behind is asked last
        blockhash, last_height = agree_on_blockhash(self.nodes, finality)
        mints = list(self.served.tokens.values())
        accounts = possible_accounts(self.signers, mints)
        addresses = [*mints, *accounts]
        calls = [*_RENT_CALLS, *accounts_calls(addresses, CONFIRMED)]
        return {
            "configuration": self.configuration,
            # What is signed now is in no block that is final now, whatever one node says.
            "slot": finality.block_number,
            "blockhash": blockhash,
            "lastValidBlockHeight": last_height,
            "unitPriceMicroLamports": min(self._find_price(accounts), self._max_unit_price),
            **self.nodes.read(calls, lambda answers: self._read_state(answers, addresses)),
        }

    def observe_payees(
        self,
        payees: Sequence[tuple[str, Asset]],
        known: Mapping[str, Mapping[str, Any]],
        find_landed: Callable[[Sequence[str]], Sequence[IncludedPayment]],
    ) -> dict[str, dict[str, Any]]:
        if not payees:
            return {}
        accounts = payee_accounts(payees, self._read_programs(), self.served.tokens)
        new = [one.payee for one in accounts if not one.was_opened(known)]
        # Before nodes are asked: what landed by now, they have.
        paid = read_paid(find_landed(new)) if new else {}
        lamports = self._read_lamports([address for address, asset in payees if asset is Asset.SOL])
        return follow_payees(lamports, accounts, self._find_open(accounts, known, paid), paid, known)

    def find_objection(self, address: str) -> str | None:
        own = [*self.expect().escrows.values(), *possible_accounts(self.signers, list(self.served.tokens.values()))]
        if address in own:
            return "It is an account of the escrow."
        if address in map(str, self.signers.keys):
            return "It is the address of our own relayer, policy signer or owner."
        part = {"dataSlice": {"offset": 0, "length": LOOKED_AT_BYTES}, **CONFIRMED}
        return self.nodes.agree(
            accounts_calls([address], part), lambda answers: object_to(read_accounts(answers, [address])[address])
        )

    def observe_relayers(self, addresses: Sequence[str]) -> dict[str, RelayerState]:
        least, rent = self.nodes.read(_RENT_CALLS, lambda answers: list(map(read_units, answers)))
        # What pays into an account that is not there yet costs the rent of one, too. What pays SOL lends as much.
        most_cost = to_coins(find_fee(self._max_unit_price) + find_rent(rent))
        return {
            address: RelayerState(to_coins(lamports), to_coins(max(0, lamports - least - rent)), most_cost, None)
            for address, lamports in self._find_gas_money(addresses).items()
        }

    def send(self, raws: Sequence[bytes]) -> list[str | None]:
        return offer(self.nodes, raws)

    def search_escrow(self, first_block: int, last_block: int, find_ours: FindOurs) -> EscrowSearch:
        return self.holder.search(first_block, last_block, find_ours)

    def spends_from_escrow(self, raw: bytes) -> bool:
        escrows = {self.signers.escrow(program) for program in TOKEN_PROGRAMS}
        return not escrows.isdisjoint(VersionedTransaction.from_bytes(raw).message.account_keys)

    def peek_escrow(self, finality: Finality) -> EscrowSearch:
        # What is not final is so for some seconds: the search itself comes soon enough.
        return EscrowSearch()

    def find_holdings(self, block_number: int) -> dict[Asset, Decimal]:
        return self.holder.find_holdings(block_number)

    def find_mismatches(self) -> list[str]:
        return self.inspect().find_mismatches()

    def inspect(self) -> Inspection:
        """Ask the nodes, the escrow and the tokens what they are."""
        return inspect(self.single_nodes, self.expect())

    def expect(self) -> Expected:
        """Gather what is configured, to be compared with the chain."""
        return Expected(self.reference, self.escrow, self.served.tokens, self.signers)

    def _read_programs(self) -> dict[Asset, str]:
        """Read which program each asset belongs to; those that are not paid with are left out."""
        mints = list(self.served.tokens.values())
        there = self.nodes.read(accounts_calls(mints, CONFIRMED), lambda answers: read_accounts(answers, mints))
        found = {asset: look_at_mint(asset, mint, there[mint]) for asset, mint in self.served.tokens.items()}
        return {asset: mint.program for asset, mint in found.items() if mint.objection is None}

    def _find_open(
        self, accounts: Sequence[PayeeAccount], known: Mapping[str, Mapping[str, Any]], paid: Mapping[str, bool]
    ) -> dict[str, bool]:
        """Find out which accounts for tokens are open, by address, where nodes agree on it.

        One that never was is asked for as it is in the final block: that it is open is then never taken back.
        """
        if not accounts:
            return {}
        new = [one.address for one in accounts if not one.was_opened(known) and one.address not in paid]
        old = [one.address for one in accounts if one.was_opened(known) or one.address in paid]
        calls = [*accounts_calls(old, HOLDER_PART | CONFIRMED), *accounts_calls(new, HOLDER_PART | FINALIZED)]
        heard = self.nodes.hear(calls, lambda answers: read_accounts(answers, [*old, *new]))
        return agree_on_open(accounts, heard) if len(heard) >= self.nodes.quorum else {}

    def _find_price(self, accounts: Sequence[str]) -> int:
        """Find the lowest price that nodes say others offer; two have to say one, unless there is only one node.

        So one that lies makes payments slow at worst, until they expire and offer more.
        """
        prices = self.nodes.hear([("getRecentPrioritizationFees", accounts)], lambda answers: _read_price(answers[0]))
        if len(prices) < self.nodes.quorum:
            raise ChainUnavailable("Too few nodes say what others offer.")
        return min(prices)

    def _find_gas_money(self, addresses: Sequence[str]) -> dict[str, int]:
        """Read what accounts have: as much as two nodes say, or the only one that there is."""
        heard = self.nodes.hear(
            _lamports_calls(addresses), lambda answers: _read_lamports(read_accounts(answers, addresses))
        )
        if len(heard) < self.nodes.quorum:
            raise ChainUnavailable("Too few nodes say what the relayer has for gas.")
        return {address: as_two_say(said[address] for said in heard) for address in addresses}

    def _read_lamports(self, addresses: Sequence[str]) -> dict[str, int]:
        """Read what accounts have; one that is not there has nothing."""
        return self.nodes.read(
            _lamports_calls(addresses), lambda answers: _read_lamports(read_accounts(answers, addresses))
        )

    def _read_state(self, answers: Sequence[Any], addresses: Sequence[str]) -> dict[str, Any]:
        least, rent = answers[0], answers[1]
        there = read_accounts(answers[2:], addresses)
        mints = {asset: look_at_mint(asset, mint, there[mint]) for asset, mint in self.served.tokens.items()}
        return {
            "rentExempt": {"account": read_units(least), "token": read_units(rent)},
            "tokens": self._read_tokens(mints, there),
        }

    def _read_tokens(self, mints: Mapping[Asset, Mint], there: Mapping[str, Account | None]) -> dict[str, Any]:
        accounts = escrow_addresses(self.signers, self.served.tokens, mints)
        found = {asset: there.get(accounts.get(asset, "")) for asset in mints}
        return {
            str(asset): {"program": mint.program, "objection": mint.objection or object_to_account(asset, found[asset])}
            for asset, mint in mints.items()
        }


def _lamports_calls(addresses: Sequence[str]) -> list[Call]:
    return accounts_calls(addresses, {"dataSlice": {"offset": 0, "length": 0}, **CONFIRMED})


def _read_lamports(found: Mapping[str, Account | None]) -> dict[str, int]:
    return {address: 0 if account is None else account.lamports for address, account in found.items()}


def _read_price(fees: Any) -> int:
    """Choose what half of the recent slots were content with: what expires is signed again, and offers more.

    The lowest price in each is what somebody wanted to pay there; to raise this, it takes more than half of them.
    """
    prices = [read_count(one["prioritizationFee"]) for one in fees]
    return median_low(prices) if prices else 0
