"""Read the environment strictly, and collect what is wrong with it instead of stopping at the first fault."""

import os
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, TypeVar

from allowance.environment.connections import POSTGRESQL, Redis, node_of, read_database, read_redis
from allowance.environment.process_types import EVERY_TYPE, ProcessType, is_reader
from allowance.environment.variables import OF_A_CHAIN, find_unknown
from allowance.kernel.assets import Asset
from allowance.kernel.money import AmountError, parse_amount
from allowance.kernel.secrecy import Secret, SecretText
from chains.addresses import RecipientError, read_evm_address, read_solana_address
from chains.catalogue import CHAINS, Chain, ServedChain, Vm

T = TypeVar("T")

SECP256K1_ORDER = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")
_KEY_LENGTH = 32
# No count has more digits: the database holds no larger number.
_MOST_DIGITS = 18
_WARNING = re.compile(r"[a-z_]+\.W\d+", re.ASCII)
_DECIMAL = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?", re.ASCII)
_ADDRESSES = {Vm.EVM: (read_evm_address, "0x" + "0" * 40), Vm.SOLANA: (read_solana_address, "1" * 32)}
_NO_ESCROW = "is not set: manage.py deploy_escrow {chain} makes one."
_IS_PRINTED = "is not set: manage.py deploy_escrow prints it."


class Configuration:
    """The environment, as far as a process of some types reads it.

    `problems` has a sentence for each variable that is missing or malformed; never its value. `names` are those that
    were asked for, whether this process reads them or not.
    """

    def __init__(self, types: frozenset[ProcessType] = EVERY_TYPE) -> None:
        self.problems: list[str] = []
        self.names: set[str] = set()
        self._types = types

    def is_read(self, name: str) -> bool:
        """Tell whether this process reads a variable."""
        self.names.add(name)
        return is_reader(self._types, name)

    def optional(self, name: str) -> str:
        """Read a variable that need not be set; "" if it is not, or if it is none of this process's."""
        return os.environ.get(name, "") if self.is_read(name) else ""

    def texts(self, name: str) -> list[str]:
        """Read a list with commas, which may be empty."""
        return [part.strip() for part in self.optional(name).split(",") if part.strip()]

    def secret_texts(self, name: str) -> list[str]:
        """Read a list of secrets with commas, which may be empty."""
        return [SecretText(text) for text in self.texts(name)]

    def text(self, name: str) -> str:
        """Read a secret that must be set where it is read; "" if it is not."""
        value = self.optional(name)
        if not value and self.is_read(name):
            self.problems.append(f"{name} is not set.")
        return SecretText(value)

    def flag(self, name: str, *, default: bool) -> bool:
        """Read true or false; what is neither is a problem, not a false."""
        value = self.optional(name).lower()
        if value not in ("", *_TRUE, *_FALSE):
            self.problems.append(f"{name} is neither true nor false.")
        return value in _TRUE if value else default

    def development(self, name: str, *, is_embedded: bool) -> bool:
        """Read true or false, false by default, of what must not be true but on a developer's machine."""
        is_set = self.flag(name, default=False)
        if is_set and not is_embedded:
            self.problems.append(f"{name} is for development: it must not be set without EMBEDDED.")
        return is_set and is_embedded

    def count(self, name: str, *, default: int, least: int = 1, most: int | None = None) -> int:
        """Read a whole number of at least 1, or within other bounds."""
        number = self._whole_number(name, least=least)
        if number is not None and most is not None and number > most:
            self.problems.append(f"{name} is not a whole number of at most {most}.")
        return default if number is None else number

    def amount(self, name: str, *, default: str) -> Decimal:
        """Read a plain decimal number of at least 0."""
        value = self.optional(name) or default
        if not _DECIMAL.fullmatch(value):
            self.problems.append(f"{name} is not a decimal number of at least 0.")
            return Decimal(default)
        return Decimal(value)

    def budget(self, name: str) -> Decimal | None:
        """Read a plain decimal number above 0; None if it is not set."""
        if not self.optional(name):
            return None
        amount = self.amount(name, default="0")
        if not amount:
            self.problems.append(f"{name} is not a decimal number above 0.")
        return amount

    def key(self, name: str, length: int, *, below: int | None = None) -> Secret | None:
        """Read a secret of so many bytes in hex, as a number from 1 and below a bound if there is one.

        None: it is none of this process's, or it is missing or malformed. Nothing stands in for it.
        """
        value = self.text(name)
        try:
            key = Secret.fromhex(value.removeprefix("0x"))
        except ValueError:
            key = Secret()
        number = int.from_bytes(key, "big")
        if len(key) == length and number and (below is None or number < below):
            return key
        if value:
            self.problems.append(f"{name} is not a key of {length} bytes in hex.")
        return None

    def optional_key(
        self, name: str, length: int, *, is_needed: bool = False, below: int | None = None
    ) -> Secret | None:
        """Read a key that need not be set, unless something needs it."""
        return self.key(name, length, below=below) if is_needed or self.optional(name) else None

    def keys(self, name: str) -> list[Secret]:
        """Read a list of keys of 32 bytes in hex, which may be empty."""
        try:
            keys = [Secret.fromhex(text.removeprefix("0x")) for text in self.texts(name)]
        except ValueError:
            keys = [Secret()]
        if any(len(key) != _KEY_LENGTH for key in keys):
            self.problems.append(f"{name} is not a list of keys of {_KEY_LENGTH} bytes in hex.")
            return []
        return keys

    def database(self, name: str) -> dict[str, Any]:
        """Read a PostgreSQL URL into Django's form; without a server if there is none."""
        return self._connection(name, read_database, {"ENGINE": POSTGRESQL})

    def redis(self, name: str) -> Redis:
        """Read a Redis URL for both the broker's and the limiter's client."""
        return self._connection(name, read_redis, Redis("", ""))

    def _connection(self, name: str, read: Callable[[str], T], nothing: T) -> T:
        value = self.text(name)
        try:
            return read(value) if value else nothing
        except ValueError as error:
            self.problems.append(f"{name} {error}")
            return nothing

    def silenced_warnings(self, name: str) -> list[str]:
        """Read the ids of the warnings that somebody has accepted; what is an error cannot be."""
        ids = self.texts(name)
        if not all(_WARNING.fullmatch(one) for one in ids):
            self.problems.append(f"{name} is not a list of warnings' ids, such as allowance.W001.")
        return [one for one in ids if _WARNING.fullmatch(one)]

    def refuse_unknown_names(self) -> None:
        """Make a problem of each variable that looks like one of ours and is none. Call it when all are read."""
        self.problems += find_unknown(filter(os.environ.get, os.environ), self.names)

    def chains(self) -> dict[str, ServedChain]:
        """Read the chains that are served, by CAIP-2 id: those that have `CHAIN_<ALIAS>_RPC_URLS`."""
        self.names.update(f"{chain.variables}_{part}" for chain in CHAINS for part in OF_A_CHAIN)
        if not is_reader(self._types, "CHAIN_<ALIAS>_RPC_URLS"):
            return {}
        served = {}
        for chain in CHAINS:
            rpc_urls = self._nodes(f"{chain.variables}_RPC_URLS")
            if rpc_urls:
                served[chain.caip2] = self._served(chain, rpc_urls)
            else:
                self._refuse_without_nodes(chain)
        if not served:
            self.problems.append("No chain is served: set CHAIN_<ALIAS>_RPC_URLS, such as CHAIN_BASE_RPC_URLS.")
        self._check_worth(served)
        return served

    def _nodes(self, name: str) -> tuple[str, ...]:
        """Read the addresses of a chain's nodes. One that is named twice would be believed as if it were two."""
        urls = self.secret_texts(name)
        try:
            if len({node_of(url) for url in urls}) < len(urls):
                self.problems.append(f"{name} names the same node twice, whose word would count for that of two.")
        except ValueError as error:
            self.problems.append(f"{name} {error}")
        return tuple(urls)

    def _refuse_without_nodes(self, chain: Chain) -> None:
        names = [f"{chain.variables}_{part}" for part in OF_A_CHAIN]
        self.problems += [f"{name} means nothing without {names[0]}." for name in names if self.optional(name)]

    def _check_worth(self, served: Mapping[str, ServedChain]) -> None:
        """See that test networks are served apart: a balance is an agent's in an asset, whatever chain it came from."""
        names: dict[bool, list[str]] = {True: [], False: []}
        for one in served.values():
            names[one.chain.is_test].append(f"{one.chain.variables}_RPC_URLS")
        if all(names.values()):
            self.problems.append(
                f"{', '.join(names[False])} must not be set together with {', '.join(names[True])}, of test networks: "
                "what is deposited there, which is worth nothing, would be paid out in real money. Serve test networks "
                "by a deployment of their own, with keys and a database of its own. EMBEDDED=true serves some."
            )

    def _served(self, chain: Chain, rpc_urls: tuple[str, ...]) -> ServedChain:
        prefix = chain.variables
        escrow = self.optional(f"{prefix}_ESCROW")
        if not escrow:
            self.problems.append(f"{prefix}_ESCROW {_NO_ESCROW.format(chain=chain.alias)}")
        depth = self._whole_number(f"{prefix}_FINALITY_DEPTH", least=1)
        first_block = self._whole_number(f"{prefix}_FIRST_BLOCK", least=0)
        if chain.vm is Vm.SOLANA:
            self._check_solana(prefix, depth, first_block)
        tokens = self._tokens(f"{prefix}_TOKENS", chain)
        return ServedChain(
            chain,
            rpc_urls,
            escrow=self._address(f"{prefix}_ESCROW", escrow, chain.vm),
            tokens=tokens,
            finality_depth=chain.finality_depth if depth is None else depth,
            first_block=first_block or 0,
            owner=self._owner(f"{prefix}_OWNER", chain.vm),
            minimums=self._minimums(f"{prefix}_MIN_PAYMENT", tokens),
            max_tip_gwei=self._max_tip(f"{prefix}_MAX_TIP_GWEI", chain),
        )

    def _max_tip(self, name: str, chain: Chain) -> Decimal | None:
        """Read the highest tip that nodes are followed to; None: what the table of chains says."""
        if not self.optional(name):
            return None
        if chain.vm is not Vm.EVM:
            self.problems.append(f"{name} means nothing on Solana: see MAX_PRIORITY_FEE_MICRO_LAMPORTS.")
            return None
        most = self.amount(name, default=str(chain.tips.most))
        if most < chain.tips.least:
            self.problems.append(f"{name} is below {chain.tips.least}, the least that the chain takes.")
        return most

    def _owner(self, name: str, vm: Vm) -> str | None:
        """Read who owns the escrow, where that is not asked of the escrow itself."""
        owner = self.optional(name)
        if vm is Vm.EVM:
            if owner:
                self.problems.append(f"{name} means nothing on an EVM chain: the escrow itself knows its owner.")
            return None
        if not owner:
            self.problems.append(f"{name} {_IS_PRINTED}")
        return self._address(name, owner, vm)

    def _check_solana(self, prefix: str, depth: int | None, first_block: int | None) -> None:
        if depth is not None:
            self.problems.append(f"{prefix}_FINALITY_DEPTH means nothing on Solana: its nodes know what is final.")
        if first_block is None:
            # No node has the history of all slots, so nothing would ever be found.
            self.problems.append(f"{prefix}_FIRST_BLOCK {_IS_PRINTED}")

    def _whole_number(self, name: str, *, least: int) -> int | None:
        value = self.optional(name)
        if not value:
            return None
        if not value.isascii() or not value.isdecimal() or len(value) > _MOST_DIGITS or int(value) < least:
            self.problems.append(f"{name} is not a whole number of at least {least}.")
            return None
        return int(value)

    def _tokens(self, name: str, chain: Chain) -> dict[Asset, str]:
        """Add to the chain's own tokens those of a variable like `USDC=0x…,EURC=0x…`."""
        tokens = dict(chain.tokens)
        for pair in self.texts(name):
            asset, _, address = pair.partition("=")
            if asset not in Asset.__members__ or not address:
                self.problems.append(f"{name} is not a list like USDC=<address>,EURC=<address>.")
                break
            token = self._address(name, address, chain.vm)
            if any(known == token for other, known in tokens.items() if other != asset):
                self.problems.append(f"{name} gives two assets the same address.")
            tokens[Asset(asset)] = token
        return tokens

    def _minimums(self, name: str, tokens: Mapping[Asset, str]) -> dict[Asset, Decimal]:
        """Read the least amounts of a variable like `USDC=0.01,EURC=0.01`, of assets that the chain has."""
        minimums: dict[Asset, Decimal] = {}
        for pair in self.texts(name):
            symbol, _, amount = pair.partition("=")
            asset = next((asset for asset in tokens if asset == symbol), None)
            if asset is None or asset in minimums:
                self.problems.append(f"{name} is not a list like USDC=0.01,EURC=0.01 of assets that are paid there.")
                break
            try:
                minimums[asset] = parse_amount(amount, asset)
            except AmountError as error:
                self.problems.append(f"{name} does not hold an amount of {asset}: {error}")
        return minimums

    def _address(self, name: str, text: str, vm: Vm) -> str:
        """Read an address into the form in which addresses are compared; a zero stands in for one that is none."""
        read, zero = _ADDRESSES[vm]
        try:
            return read(text)
        except RecipientError as error:
            if text:
                self.problems.append(f"{name} does not hold an address: {error}")
            return zero


def leave_out_missing_escrows(problems: list[str]) -> list[str]:
    """Leave out that a chain lacks an escrow, and what is printed with one: no problem for whoever deploys it."""
    form = re.escape(_NO_ESCROW).replace(re.escape("{chain}"), "[a-z-]+")
    form = rf"CHAIN_[A-Z_]+_(ESCROW {form}|(FIRST_BLOCK|OWNER) {re.escape(_IS_PRINTED)})"
    return [problem for problem in problems if not re.fullmatch(form, problem)]
