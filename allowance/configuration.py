"""Read the environment strictly, and collect what is wrong with it instead of stopping at the first fault."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import environ

from allowance.kernel.assets import Asset
from allowance.kernel.money import AmountError, parse_amount
from services.addresses import RecipientError, read_evm_address, read_solana_address
from services.chains import CHAINS, Chain, ServedChain, Vm

SECP256K1_ORDER = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")
_KEY_LENGTH = 32
_POSTGRESQL = "django.db.backends.postgresql"
# No count has more digits: the database holds no larger number.
_MOST_DIGITS = 18
_DECIMAL = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?", re.ASCII)
_ADDRESSES = {Vm.EVM: (read_evm_address, "0x" + "0" * 40), Vm.SOLANA: (read_solana_address, "1" * 32)}
_NO_ESCROW = "is not set: manage.py deploy_escrow {chain} makes one."
_IS_PRINTED = "is not set: manage.py deploy_escrow prints it."


class Configuration:
    """The environment. `problems` has a sentence for each variable that is missing or malformed; never its value."""

    def __init__(self) -> None:
        self.env = environ.Env()
        self.problems: list[str] = []

    def text(self, name: str) -> str:
        """Read a variable that must be set; "" if it is not."""
        value: str = self.env.str(name, default="")
        if not value:
            self.problems.append(f"{name} is not set.")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """Read true or false; what is neither is a problem, not a false."""
        value: str = self.env.str(name, default="").lower()
        if value not in ("", *_TRUE, *_FALSE):
            self.problems.append(f"{name} is neither true nor false.")
        return value in _TRUE if value else default

    def count(self, name: str, *, default: int, least: int = 1, most: int | None = None) -> int:
        """Read a whole number of at least 1, or within other bounds."""
        number = self._whole_number(name, least=least)
        if number is not None and most is not None and number > most:
            self.problems.append(f"{name} is not a whole number of at most {most}.")
        return default if number is None else number

    def amount(self, name: str, *, default: str) -> Decimal:
        """Read a plain decimal number of at least 0."""
        value: str = self.env.str(name, default="") or default
        if not _DECIMAL.fullmatch(value):
            self.problems.append(f"{name} is not a decimal number of at least 0.")
            return Decimal(default)
        return Decimal(value)

    def redis(self, name: str) -> str:
        """Read a Redis URL that both the broker's and the limiter's client understand."""
        url = self.text(name)
        if url and not url.startswith(("redis://", "rediss://")):
            self.problems.append(f"{name} is not a redis:// or rediss:// URL.")
        return url

    def key(self, name: str, length: int, *, below: int | None = None) -> bytes:
        """Read a secret of so many bytes in hex, as a number from 1 and below a bound if there is one.

        A key that fits stands in for one that is missing or malformed.
        """
        value = self.text(name)
        try:
            key = bytes.fromhex(value.removeprefix("0x"))
        except ValueError:
            key = b""
        number = int.from_bytes(key, "big")
        if len(key) == length and number and (below is None or number < below):
            return key
        if value:
            self.problems.append(f"{name} is not a key of {length} bytes in hex.")
        return bytes(length - 1) + b"\x01"

    def database(self, name: str) -> dict[str, Any]:
        """Read a PostgreSQL URL into Django's form; without a server if it is missing or of another kind."""
        if not self.text(name):
            return {"ENGINE": _POSTGRESQL}
        database: dict[str, Any] = self.env.db_url(name)
        if database.get("ENGINE") != _POSTGRESQL:
            self.problems.append(f"{name} is not a PostgreSQL URL.")
            return {"ENGINE": _POSTGRESQL}
        return database

    def keys(self, name: str) -> list[bytes]:
        """Read a list of keys of 32 bytes in hex, which may be empty."""
        texts = self.env.list(name, default=[])
        try:
            keys = [bytes.fromhex(text.removeprefix("0x")) for text in texts]
        except ValueError:
            keys = [b""]
        if any(len(key) != _KEY_LENGTH for key in keys):
            self.problems.append(f"{name} is not a list of keys of {_KEY_LENGTH} bytes in hex.")
            return []
        return keys

    def chains(self) -> dict[str, ServedChain]:
        """Read the chains that are served, by CAIP-2 id: those that have `CHAIN_<ALIAS>_RPC_URLS`."""
        served = {}
        for chain in CHAINS:
            prefix = chain.variables
            rpc_urls = self.env.list(f"{prefix}_RPC_URLS", default=[])
            if rpc_urls:
                served[chain.caip2] = self._served(chain, tuple(rpc_urls))
        if not served:
            self.problems.append("No chain is served: set CHAIN_<ALIAS>_RPC_URLS, such as CHAIN_BASE_RPC_URLS.")
        self._check_worth(served)
        return served

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
        escrow: str = self.env.str(f"{prefix}_ESCROW", default="")
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
        )

    def _owner(self, name: str, vm: Vm) -> str | None:
        """Read who owns the escrow, where that is not asked of the escrow itself."""
        owner: str = self.env.str(name, default="")
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
        value: str = self.env.str(name, default="")
        if not value:
            return None
        if not value.isascii() or not value.isdecimal() or len(value) > _MOST_DIGITS or int(value) < least:
            self.problems.append(f"{name} is not a whole number of at least {least}.")
            return None
        return int(value)

    def _tokens(self, name: str, chain: Chain) -> dict[Asset, str]:
        """Add to the chain's own tokens those of a variable like `USDC=0x…,EURC=0x…`."""
        tokens = dict(chain.tokens)
        for pair in self.env.list(name, default=[]):
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
        for pair in self.env.list(name, default=[]):
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
