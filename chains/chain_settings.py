"""Read the variables of chains, `CHAIN_<ALIAS>_…`: which chains are served, by which nodes, from which escrow."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from chains.addresses import RecipientError, read_evm_address, read_solana_address
from chains.catalogue import CHAINS, Chain, ServedChain, Vm
from foundation.environment.configuration import Configuration
from foundation.environment.connections import node_of
from foundation.environment.missing_escrows import IS_PRINTED, NO_ESCROW
from foundation.environment.table import OF_A_CHAIN, SETTINGS
from foundation.kernel.assets import Asset
from foundation.kernel.money import AmountError, parse_amount

# All that may be set of the chains that are known.
VARIABLES = frozenset(f"{chain.variables}_{part}" for chain in CHAINS for part in OF_A_CHAIN)
# The names that mean anything.
KNOWN = VARIABLES | {one.name for one in SETTINGS if not one.is_of_a_chain}
_ADDRESSES = {Vm.EVM: (read_evm_address, "0x" + "0" * 40), Vm.SOLANA: (read_solana_address, "1" * 32)}


def read_chains(configuration: Configuration) -> dict[str, ServedChain]:
    """Read the chains that are served, by CAIP-2 id: those that have `CHAIN_<ALIAS>_RPC_URLS`."""
    if not configuration.is_read("CHAIN_<ALIAS>_RPC_URLS"):
        return {}
    served = {}
    for chain in CHAINS:
        variables = _ChainVariables(configuration, chain)
        if variables.rpc_urls:
            served[chain.caip2] = variables.read()
        else:
            variables.refuse_without_nodes()
    if not served:
        configuration.problems.append("No chain is served: set CHAIN_<ALIAS>_RPC_URLS, such as CHAIN_BASE_RPC_URLS.")
    _refuse_mixed_worth(configuration, served)
    return served


def _refuse_mixed_worth(configuration: Configuration, served: Mapping[str, ServedChain]) -> None:
    """Refuse test networks beside others: a balance in an asset can be spent on any chain."""
    names: dict[bool, list[str]] = {True: [], False: []}
    for one in served.values():
        names[one.chain.is_test].append(f"{one.chain.variables}_RPC_URLS")
    if all(names.values()):
        configuration.problems.append(
            f"{', '.join(names[False])} must not be set together with {', '.join(names[True])}, of test networks: "
            "what is deposited there, which is worth nothing, would be paid out in real money. Serve test networks "
            "by a deployment of their own, with keys and a database of its own. EMBEDDED=true serves some."
        )


class _ChainVariables:
    """The variables of one chain. Problems are collected in the configuration."""

    def __init__(self, configuration: Configuration, chain: Chain) -> None:
        self._configuration = configuration
        self._chain = chain
        self._prefix = chain.variables
        self.rpc_urls = self._nodes()

    def read(self) -> ServedChain:
        """Read a chain that has nodes."""
        escrow = self._read("ESCROW")
        if not escrow:
            self._refuse("ESCROW", NO_ESCROW.format(chain=self._chain.alias))
        depth, first_block = self._read("FINALITY_DEPTH"), self._read("FIRST_BLOCK")
        if self._chain.vm is Vm.SOLANA:
            self._check_solana(depth, first_block)
        tokens, left_out = self._tokens()
        return ServedChain(
            self._chain,
            self.rpc_urls,
            escrow=self._address("ESCROW", escrow),
            tokens=tokens,
            finality_depth=self._chain.finality_depth if depth is None else depth,
            first_block=first_block or 0,
            owner=self._owner(),
            minimums=self._minimums(tokens),
            max_tip_gwei=self._max_tip(),
            left_out=left_out,
            most_together=self._read("MOST_TOGETHER"),
        )

    def refuse_without_nodes(self) -> None:
        """Refuse variables of a chain that is not served."""
        for part in OF_A_CHAIN:
            if self._configuration.is_set(f"{self._prefix}_{part}"):
                self._refuse(part, f"means nothing without {self._prefix}_{OF_A_CHAIN[0]}.")

    def _read(self, part: str) -> Any:
        """Read a variable of this chain; what a served chain must have is said by whoever asks."""
        return self._configuration.read(f"{self._prefix}_{part}", is_needed=False)

    def _refuse(self, part: str, reason: str) -> None:
        self._configuration.problems.append(f"{self._prefix}_{part} {reason}")

    def _nodes(self) -> tuple[str, ...]:
        """Read the addresses of the nodes. A node that is named twice would be believed as if it were two."""
        urls = self._read("RPC_URLS")
        try:
            if len({node_of(url) for url in urls}) < len(urls):
                self._refuse("RPC_URLS", "names the same node twice, whose word would count for that of two.")
        except ValueError as error:
            self._refuse("RPC_URLS", str(error))
        return tuple(urls)

    def _max_tip(self) -> Decimal | None:
        """Read the highest tip that is paid, whatever nodes suggest; None: the catalogue's."""
        most: Decimal | None = self._read("MAX_TIP_GWEI")
        if most is not None and self._chain.vm is not Vm.EVM:
            self._refuse("MAX_TIP_GWEI", "means nothing on Solana: see MAX_PRIORITY_FEE_MICRO_LAMPORTS.")
        elif most is not None and most < self._chain.tips.least:
            self._refuse("MAX_TIP_GWEI", f"is below {self._chain.tips.least}, the least that the chain takes.")
        return most

    def _owner(self) -> str | None:
        """Read the escrow's owner; an EVM escrow names it itself, and it is compared if it is set."""
        owner = self._read("OWNER")
        if not owner and self._chain.vm is Vm.EVM:
            return None
        if not owner:
            self._refuse("OWNER", IS_PRINTED)
        return self._address("OWNER", owner)

    def _check_solana(self, depth: int | None, first_block: int | None) -> None:
        if depth is not None:
            self._refuse("FINALITY_DEPTH", "means nothing on Solana: its nodes know what is final.")
        if first_block is None:
            # No node has the history of all slots, so nothing would ever be found.
            self._refuse("FIRST_BLOCK", IS_PRINTED)

    def _tokens(self) -> tuple[dict[Asset, str], frozenset[Asset]]:
        """Add to the chain's own tokens those of a variable like `USDC=0x…,EURC=0x…`; `USDT=` leaves an asset out."""
        tokens, left_out = dict(self._chain.tokens), set()
        for pair in self._read("TOKENS"):
            symbol, has_address, address = pair.partition("=")
            if symbol not in Asset.__members__ or not has_address:
                self._refuse("TOKENS", "is not a list like USDC=<address>,EURC=<address>,USDT= (USDT is left out).")
                break
            asset = Asset(symbol)
            if not address:
                left_out.add(asset)
                continue
            token = self._address("TOKENS", address)
            if any(known == token for other, known in tokens.items() if other != asset):
                self._refuse("TOKENS", "gives two assets the same address.")
            tokens[asset] = token
        if unknown := left_out - tokens.keys():
            self._refuse("TOKENS", f"leaves out {', '.join(sorted(unknown))}, which the chain does not have anyway.")
        return tokens, frozenset(left_out)

    def _minimums(self, tokens: Mapping[Asset, str]) -> dict[Asset, Decimal]:
        """Read the least amounts of a variable like `USDC=0.01,EURC=0.01`, of assets that the chain has."""
        minimums: dict[Asset, Decimal] = {}
        for pair in self._read("MIN_PAYMENT"):
            symbol, _, amount = pair.partition("=")
            asset = next((asset for asset in tokens if asset == symbol), None)
            if asset is None or asset in minimums:
                self._refuse("MIN_PAYMENT", "is not a list like USDC=0.01,EURC=0.01 of assets that are paid there.")
                break
            try:
                minimums[asset] = parse_amount(amount, asset)
            except AmountError as error:
                self._refuse("MIN_PAYMENT", f"does not hold an amount of {asset}: {error}")
        return minimums

    def _address(self, part: str, text: str) -> str:
        """Read an address into the form in which addresses are compared; a zero stands in for one that is none."""
        read, zero = _ADDRESSES[self._chain.vm]
        try:
            address = read(text)
        except RecipientError as error:
            if text:
                self._refuse(part, f"does not hold an address: {error}")
            return zero
        if address == zero:
            self._refuse(part, "holds the zero address, which is nobody's.")
        return address
