"""The EVM adapter: payments through the escrow contract. See `ChainAdapter` for the contract of each method.

It signs (`signing`), follows what was sent (`following`), and watches what both need to know.
Source: docs/architecture.md, "One settlement's way"; docs/background.md, "Settlement on EVM".
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from typing import Any

from allowance.kernel.assets import Asset
from allowance.kernel.money import from_base_units
from allowance.kernel.times import utc_now
from chains.catalogue import ServedChain
from chains.evm.answers import (
    DEPOSITED,
    PAID,
    VOIDED,
    WITHDRAWN,
    read_block,
    read_count,
    read_deposit,
    read_number,
    read_outflow,
    read_void,
)
from chains.evm.configuration_check import Expected, Inspection, Roles
from chains.evm.eip1559 import read_call
from chains.evm.escrow_calls import balance_call
from chains.evm.fees import GWEI, Asked, FeeLimits, choose_fees, fee_calls, find_asked, read_asked, to_coins
from chains.evm.following import LAG, EvmFollowing, block_call
from chains.evm.inspection import inspect
from chains.evm.preparing import GAS_LIMIT, EvmSigning
from chains.port import (
    ChainUnavailable,
    EscrowSearch,
    Finality,
    IncludedPayment,
    NonceState,
    OutflowEvent,
    RelayerState,
    VoidEvent,
)
from chains.rpc.nodes import Identity, Nodes, as_two_say
from chains.rpc.transport import Call, RpcError

# What a node took but no block holds is offered again after this.
RESEND_AFTER = timedelta(seconds=30)
# For so long a signature is good: absence proves nothing before its end.
VALIDITY = timedelta(minutes=15)
_MOST_BLOCKS_BEHIND = 32
EVENTS = (DEPOSITED, PAID, VOIDED, WITHDRAWN)
_OUTFLOWS = (PAID, WITHDRAWN)
# How nodes say "I have this one already", or that its nonce is used, whether by itself or by another.
_ALREADY_THERE = re.compile(
    r"\b(already[ _]?(known|imported|exists|in)|known transaction|oldnonce|nonce( is)? too low)", re.IGNORECASE
)


class EvmChain(EvmSigning, EvmFollowing):
    """One EVM chain with its escrow. `find_roles` tells whom the escrow must know; without it that is not compared."""

    def __init__(
        self,
        served: ServedChain,
        relayer_seed: bytes,
        max_fee_gwei: int = 1_000,
        find_roles: Callable[[], Roles] | None = None,
        validity: timedelta = VALIDITY,
    ) -> None:
        EvmSigning.__init__(self, served, relayer_seed, FeeLimits.of(served, max_fee_gwei * GWEI), validity)
        EvmFollowing.__init__(self, Nodes(served.rpc_urls, Identity("eth_chainId", served.chain.chain_id)), served)
        # For what each node is asked of itself, such as which chain it is of.
        self.single_nodes = [Nodes((url,)) for url in served.rpc_urls]
        self._assets = {address.lower(): asset for asset, address in served.tokens.items()}
        self._find_roles = find_roles
        self.resend_after = RESEND_AFTER
        self.deposits_trail, self.most_blocks_behind = 0, _MOST_BLOCKS_BEHIND

    @property
    def nonces(self) -> "EvmChain":
        return self

    @property
    def most_relayers(self) -> None:
        return None

    def observe(self) -> dict[str, Any]:
        heads = [blocks[0] for blocks in self._heads()]
        number, asked = self._find_asked(sorted((head.number for head in heads), reverse=True))
        # A chain may be quiet, and all nodes behind: then the newest of their blocks is new.
        if min(utc_now(), max(head.time for head in heads)) - asked.time > LAG:
            # Of two nodes, one that lies could name an old block, which the other knows.
            raise ChainUnavailable("No new block is known to several nodes.")
        tip, max_fee = choose_fees(asked, self._fee_limits)
        return {
            "configuration": self.configuration,
            "height": number,
            "maxPriorityFeePerGas": tip,
            "maxFeePerGas": max_fee,
        }

    def observe_relayers(self, addresses: Sequence[str]) -> dict[str, RelayerState]:
        most_cost = to_coins(max(1, GAS_LIMIT * self.observe()["maxFeePerGas"]))
        final = hex(self.find_finality().block_number)
        count = len(addresses)
        # Nonces before balances: what a block takes in between counts as under way, and as paid.
        heard = self.nodes.ask_each(
            [("eth_getTransactionCount", address, block) for block in (final, "latest") for address in addresses]
        )
        balances = self._find_balances(addresses)
        mined = [_counts([answers[count + index] for answers in heard]) for index in range(count)]
        return {
            address: RelayerState(
                balance=balances[index],
                spendable=balances[index],
                most_cost=most_cost,
                nonces=NonceState(
                    mined=as_two_say(mined[index] or [0]),
                    final=self._final_nonce(_counts([answers[index] for answers in heard]), mined[index]),
                ),
            )
            for index, address in enumerate(addresses)
        }

    def send(self, raws: Sequence[bytes]) -> list[str | None]:
        # To every node: one that took it and forgot it, or keeps it to itself, does not hold it up.
        heard = self.nodes.ask_each([("eth_sendRawTransaction", "0x" + raw.hex()) for raw in raws])
        return [_refusal([answers[index] for answers in heard]) for index in range(len(raws))]

    def observe_payees(
        self,
        payees: Sequence[tuple[str, Asset]],
        known: Mapping[str, Mapping[str, Any]],
        find_landed: Callable[[Sequence[str]], Sequence[IncludedPayment]],
    ) -> dict[str, dict[str, Any]]:
        # The escrow pays whoever is named.
        return {}

    def find_objection(self, address: str) -> str | None:
        # An account and a contract look alike to who pays them.
        return None

    def search_escrow(
        self, first_block: int, last_block: int, find_ours: Callable[[Sequence[str]], set[str]]
    ) -> EscrowSearch:
        # Whatever moves money, or makes a payment impossible, is an event of the escrow's own.
        return self.nodes.agree(
            [self._events_call(EVENTS, first_block, last_block), block_call(hex(last_block))],
            lambda answers: self._read_events(answers[0], answers[1], first_block, last_block),
        )

    def spends_from_escrow(self, raw: bytes) -> bool:
        return read_call(raw)[0] == self._escrow

    def peek_escrow(self, finality: Finality) -> EscrowSearch:
        first, last = finality.block_number + 1, finality.newest
        if first > last:
            return EscrowSearch()
        heard = self.nodes.hear(
            [self._events_call((PAID, VOIDED, WITHDRAWN), first, last), block_call(hex(last))],
            lambda answers: self._read_events(answers[0], answers[1], first, last),
        )
        # One node alone could make us stop by inventing something, or by saying it twice.
        said = Counter(one for found in heard for one in {*found.outflows, *found.voids})
        common = [one for one, count in said.items() if count >= self.nodes.quorum]
        return EscrowSearch(
            outflows=[one for one in common if isinstance(one, OutflowEvent)],
            voids=[one for one in common if isinstance(one, VoidEvent)],
        )

    def find_holdings(self, block_number: int) -> dict[Asset, Decimal]:
        assets = list(self.served.tokens)
        units = self.nodes.agree(
            [
                (
                    "eth_call",
                    {"to": self.served.tokens[asset], "data": balance_call(self.served.escrow)},
                    hex(block_number),
                )
                for asset in assets
            ],
            lambda answers: [read_number(answer) for answer in answers],
        )
        return {asset: from_base_units(held, asset) for asset, held in zip(assets, units, strict=True)}

    def find_mismatches(self) -> list[str]:
        return self.inspect().find_mismatches()

    def inspect(self) -> Inspection:
        """Ask the nodes, the escrow and the tokens what they are."""
        return inspect(self.single_nodes, self.expect())

    def expect(self) -> Expected:
        """Gather what is configured, to be compared with the chain."""
        roles = self._find_roles() if self._find_roles else None
        return Expected(self.served.chain.chain_id, self.served.escrow, self.served.tokens, roles)

    def _find_asked(self, heads: Sequence[int]) -> tuple[int, Asked]:
        """Find the highest of their heads (highest first) of which two nodes say the same, or the only one that is."""
        # What no other node claims to have yet is not worth a question.
        for number in dict.fromkeys(heads[self.nodes.quorum - 1 :] or heads):
            with suppress(ChainUnavailable):
                heard = self.nodes.hear(fee_calls(number), read_asked(number))
                if (asked := find_asked(heard, self.nodes.quorum)) is not None:
                    return number, asked
        raise ChainUnavailable("Too few nodes say the same of the chain's fees.")

    def _find_balances(self, addresses: Sequence[str]) -> list[Decimal]:
        """Read what accounts have: as much as two nodes say, or the only one that there is."""
        heard = self.nodes.hear(
            [("eth_getBalance", address, "latest") for address in addresses],
            lambda answers: [read_number(answer) for answer in answers],
        )
        if len(heard) < self.nodes.quorum:
            raise ChainUnavailable("Too few nodes say what the relayers have for gas.")
        return [to_coins(as_two_say(said)) for said in zip(*heard, strict=True)]

    def _final_nonce(self, final: Sequence[int], mined: Sequence[int]) -> int:
        """Choose the lowest nonce that nodes call final; where too few keep so old a state, what all have mined.

        0 if too few can tell even that.
        """
        return next((min(said) for said in (final, mined) if len(said) >= self.nodes.quorum), 0)

    def _events_call(self, topics: Sequence[str], first_block: int, last_block: int) -> Call:
        wanted = {"fromBlock": hex(first_block), "toBlock": hex(last_block)}
        return ("eth_getLogs", {"address": self.served.escrow, "topics": [list(topics)], **wanted})

    def _read_events(self, logs: list[Any], last: Any, first_block: int, last_block: int) -> EscrowSearch:
        # A node that does not have the last block yet has nothing to say about its events.
        read_block(last, last_block)
        in_order = sorted(logs, key=lambda log: (read_count(log["blockNumber"]), read_count(log["logIndex"])))
        by_topic: dict[str, list[Any]] = {topic: [] for topic in EVENTS}
        for log in in_order:
            by_topic[log["topics"][0].lower()].append(log)
        escrow, outflows = self.served.escrow, [log for log in in_order if log["topics"][0].lower() in _OUTFLOWS]
        found = EscrowSearch(
            [read_deposit(log, escrow, self._assets) for log in by_topic[DEPOSITED]],
            [read_outflow(log, escrow, self._assets) for log in outflows],
            [read_void(log, escrow) for log in by_topic[VOIDED]],
        )
        if any(not first_block <= number <= last_block for number in found.block_numbers()):
            raise ValueError("not what was asked for")
        return found


def _refusal(answers: list[Any]) -> str | None:
    """Say why no node took a transaction; None if one did."""
    refusals = [answer for answer in answers if isinstance(answer, RpcError)]
    if len(refusals) < len(answers) or any(_is_there(refusal) for refusal in refusals):
        return None
    return str(refusals[0])


def _is_there(refusal: RpcError) -> bool:
    # A development node that makes a block at once calls it an error if the transaction reverts there.
    is_mined = isinstance(refusal.data, dict) and "txHash" in refusal.data
    return is_mined or _ALREADY_THERE.search(str(refusal)) is not None


def _counts(answers: list[Any]) -> list[int]:
    """Read the counts among what nodes answered."""
    counts = []
    for answer in answers:
        with suppress(ValueError):
            counts.append(read_count(answer))
    return counts
