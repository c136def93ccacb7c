"""Read the environment strictly, and collect what is wrong with it instead of stopping at the first fault."""

from typing import Any

import environ

from allowance.kernel.assets import Asset
from services.chains import CHAINS, Chain, ServedChain

_POSTGRESQL = "django.db.backends.postgresql"


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

    def key(self, name: str, length: int) -> bytes:
        """Read a secret of so many bytes in hex; zeros if it is missing or malformed."""
        value = self.text(name)
        try:
            key = bytes.fromhex(value.removeprefix("0x"))
        except ValueError:
            key = b""
        if value and len(key) != length:
            self.problems.append(f"{name} is not {length} bytes in hex.")
        return key if len(key) == length else bytes(length)

    def database(self, name: str) -> dict[str, Any]:
        """Read a PostgreSQL URL into Django's form; without a server if it is missing or of another kind."""
        if not self.text(name):
            return {"ENGINE": _POSTGRESQL}
        database: dict[str, Any] = self.env.db_url(name)
        if database.get("ENGINE") != _POSTGRESQL:
            self.problems.append(f"{name} is not a PostgreSQL URL.")
            return {"ENGINE": _POSTGRESQL}
        return database

    def public_keys(self, name: str) -> list[bytes]:
        """Read a list of public keys of 32 bytes in hex, which may be empty."""
        texts = self.env.list(name, default=[])
        try:
            return [bytes.fromhex(text.removeprefix("0x")) for text in texts]
        except ValueError:
            self.problems.append(f"{name} is not a list of keys in hex.")
            return []

    def chains(self) -> dict[str, ServedChain]:
        """Read the chains that are served, by CAIP-2 id: those that have `CHAIN_<ALIAS>_RPC_URLS`."""
        served = {}
        for chain in CHAINS:
            prefix = f"CHAIN_{chain.alias.upper().replace('-', '_')}"
            rpc_urls = self.env.list(f"{prefix}_RPC_URLS", default=[])
            if rpc_urls:
                served[chain.caip2] = ServedChain(
                    chain, tuple(rpc_urls), self.text(f"{prefix}_ESCROW"), self._tokens(f"{prefix}_TOKENS", chain)
                )
        if not served:
            self.problems.append("No chain is served: set CHAIN_<ALIAS>_RPC_URLS, such as CHAIN_BASE_RPC_URLS.")
        return served

    def _tokens(self, name: str, chain: Chain) -> dict[Asset, str]:
        """Add to the chain's own tokens those of a variable like `USDC=0x…,EURC=0x…`."""
        tokens = dict(chain.tokens)
        for pair in self.env.list(name, default=[]):
            asset, _, address = pair.partition("=")
            if asset not in Asset.__members__ or not address:
                self.problems.append(f"{name} is not a list like USDC=0x…,EURC=0x….")
                break
            tokens[Asset(asset)] = address
        return tokens
