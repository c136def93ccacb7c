"""Solana nodes for tests: what an honest one says of a small chain, where anything may be said otherwise."""

import base64
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import base58
from django.conf import settings
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from chains.catalogue import ServedChain, find_chain
from chains.solana.adapter import SolanaChain
from chains.solana.derivation import (
    NATIVE_MINT,
    TOKEN_2022_PROGRAM,
    TOKEN_PROGRAM,
    EscrowSigners,
    public_key,
)
from foundation.kernel.assets import Asset
from tests.support.fake_nodes import Node
from tests.support.solana_vm import OWNER_KEY, PYUSD, SEED, SIGNER_KEY, mint_data, token_data

GENESIS = base58.b58encode(sha256(b"allowance solana-localnet").digest()).decode()
SIGNERS = EscrowSigners.of(SEED, public_key(SIGNER_KEY), str(Pubkey(public_key(OWNER_KEY))))
RELAYER, POLICY, OWNER = SIGNERS.keys
TOKEN_ESCROW, TOKEN_2022_ESCROW = map(SIGNERS.escrow, (TOKEN_PROGRAM, TOKEN_2022_PROGRAM))
MINTS = {Asset.SOL: NATIVE_MINT, Asset.USDC: Keypair().pubkey(), Asset.PYUSD: Keypair().pubkey()}
PROGRAMS = {Asset.SOL: TOKEN_PROGRAM, Asset.USDC: TOKEN_PROGRAM, Asset.PYUSD: TOKEN_2022_PROGRAM}
HOLDERS = {asset: str(SIGNERS.account(mint, PROGRAMS[asset])) for asset, mint in MINTS.items()}
RENT, LEAST = 2_039_280, 890_880
MEMO_PROGRAM = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr"
OLD_MEMO_PROGRAM = "Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo"
SYSTEM_PROGRAM = "1" * 32
CLOCK = "SysvarC1ock11111111111111111111111111111111"
NOT_SO_FAR = {"code": -32016, "message": "Minimum context slot has not been reached"}
FINAL, HEIGHT, NEWEST = 1_000, 900, 1_032


def some_tx(number: int) -> str:
    """Make an id that differs by number."""
    return base58.b58encode(number.to_bytes(64, "big")).decode()


def some_hash(number: int) -> str:
    return base58.b58encode(number.to_bytes(32, "big")).decode()


def address() -> str:
    return str(Keypair().pubkey())


def account(data: bytes = b"", owner: str = SYSTEM_PROGRAM, lamports: int = RENT, **changes: Any) -> dict[str, Any]:
    text = base64.b64encode(data).decode()
    whole = {"lamports": lamports, "owner": str(owner), "executable": False, "data": [text, "base64"], "rentEpoch": 0}
    return {**whole, **changes}


def holder_account(asset: Asset, units: int = 0, **changes: Any) -> dict[str, Any]:
    """Make the escrow's account of an asset; `changes` are to its data: {position: bytes}."""
    native = RENT if asset is Asset.SOL else None
    extensions = PYUSD if asset is Asset.PYUSD else None
    escrow = SIGNERS.escrow(PROGRAMS[asset])
    data = bytearray(token_data(MINTS[asset], escrow, units, extensions, native))
    for position, part in changes.pop("data", {}).items():
        data[position : position + len(part)] = part
    facts = {"lamports": RENT + units if native else RENT, **changes}
    return account(bytes(data), str(PROGRAMS[asset]), **facts)


def status(slot: int, error: Any = None, commitment: str = "finalized") -> dict[str, Any]:
    return {"slot": slot, "confirmations": None, "err": error, "confirmationStatus": commitment}


def blocks(first: int, last: int) -> list[int]:
    """List the slots that have a block."""
    return [slot for slot in range(first, last + 1) if slot % 10 != 9]


@dataclass
class Truth:
    """What an honest node says of a chain whose slot 1000 is final, 900 blocks high; slot 1032 is confirmed.

    Every tenth slot was skipped.
    """

    final: int = FINAL
    height: int = HEIGHT
    newest: int = NEWEST
    first: int = 0
    time: float = field(default_factory=time.time)
    blockhash: str = some_hash(7)
    statuses: dict[str, Any] = field(default_factory=dict)
    # Other blockhashes that are good still.
    usable: set[str] = field(default_factory=set)
    prices: Sequence[int] = ()
    accounts: dict[str, Any] = field(default_factory=dict)
    entries: dict[str, list[Any]] = field(default_factory=dict)
    transactions: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.accounts |= {
            str(TOKEN_ESCROW): account(SIGNERS.multisig_data, str(TOKEN_PROGRAM)),
            str(TOKEN_2022_ESCROW): account(SIGNERS.multisig_data, str(TOKEN_2022_PROGRAM)),
            str(MINTS[Asset.SOL]): account(mint_data(9), str(TOKEN_PROGRAM)),
            str(MINTS[Asset.USDC]): account(mint_data(), str(TOKEN_PROGRAM)),
            str(MINTS[Asset.PYUSD]): account(mint_data(extensions=PYUSD), str(TOKEN_2022_PROGRAM)),
            **{holder: holder_account(asset) for asset, holder in HOLDERS.items()},
        }

    def answers(self, **lies: Any) -> dict[str, Any]:
        """Say all that a node is asked for, but for some lies: by method."""
        return {
            "getGenesisHash": GENESIS,
            "getEpochInfo": lambda _: {"absoluteSlot": self.final, "blockHeight": self.height},
            "getSlot": lambda config: self.final if config["commitment"] == "finalized" else self.newest,
            "getFirstAvailableBlock": lambda: self.first,
            "getBlocks": lambda first, last, _: blocks(first, min(last, self.newest)),
            "getBlocksWithLimit": lambda first, limit, _: blocks(first, self.final)[:limit],
            "getBlock": lambda slot, _: self.header(slot),
            "getLatestBlockhash": lambda config: self.context(
                {"blockhash": self.blockhash, "lastValidBlockHeight": self.height + 32 + 150}, config
            ),
            "isBlockhashValid": lambda one, config: self.context(one in (self.blockhash, *self.usable), config),
            "getRecentPrioritizationFees": lambda _: [{"slot": 1, "prioritizationFee": one} for one in self.prices],
            "getMinimumBalanceForRentExemption": lambda length: RENT if length else LEAST,
            "getAccountInfo": lambda one, config: self.context(self.account(one, config), config),
            "getMultipleAccounts": lambda many, config: self.context(
                [self.account(one, config) for one in many], config
            ),
            "getSignatureStatuses": lambda txs, _: self.context([self.statuses.get(tx) for tx in txs]),
            "getSignaturesForAddress": self.page,
            "getTransaction": lambda tx, _: self.transactions.get(tx),
        } | lies

    def header(self, slot: int) -> dict[str, Any]:
        since = len(blocks(slot + 1, self.final))
        return {"blockHeight": self.height - since, "parentSlot": blocks(0, slot - 1)[-1]}

    def context(self, value: Any, config: dict[str, Any] | None = None) -> dict[str, Any]:
        is_final = config is not None and config["commitment"] == "finalized"
        return {"context": {"slot": self.final if is_final else self.newest}, "value": value}

    def account(self, wanted: str, config: dict[str, Any]) -> Any:
        if wanted == CLOCK:
            numbers = (self.final, 0, 0, 0, int(self.time))
            return account(b"".join(one.to_bytes(8, "little") for one in numbers))
        found = self.accounts.get(wanted)
        if found is None or "dataSlice" not in config:
            return found
        first, length = config["dataSlice"]["offset"], config["dataSlice"]["length"]
        part = base64.b64decode(found["data"][0])[first : first + length]
        return {**found, "data": [base64.b64encode(part).decode(), "base64"]}

    def page(self, wanted: str, config: dict[str, Any]) -> Any:
        if config["minContextSlot"] > self.final:
            return NOT_SO_FAR
        entries = self.entries.get(wanted, [])
        if before := config.get("before"):
            at = next((index for index, one in enumerate(entries) if one["signature"] == before), len(entries))
            entries = entries[at + 1 :]
        return entries[: config["limit"]]

    def land(self, number: int, slot: int, *moves: tuple[Asset, int, int], **facts: Any) -> str:
        """Put a transaction into the history of the escrow's accounts: (asset, base units before, after); newest last.

        `facts`: its memos (program, text), its error, how many other accounts come before them.
        """
        tx, error = some_tx(number), facts.get("error")
        others = [address() for _ in range(facts.get("others", 1))]
        keys = [*others, *(HOLDERS[asset] for asset, _, _ in moves), MEMO_PROGRAM, OLD_MEMO_PROGRAM]
        memos = facts.get("memos", [(MEMO_PROGRAM, b"agent")])
        self.transactions[tx] = {
            "slot": slot,
            "transaction": {
                "signatures": [tx],
                "message": {
                    "accountKeys": keys,
                    "instructions": [
                        {"programIdIndex": keys.index(program), "accounts": [], "data": base58.b58encode(text).decode()}
                        for program, text in memos
                    ],
                },
            },
            "meta": {
                "err": error,
                "loadedAddresses": {"writable": [], "readonly": []},
                "preBalances": _lamports(keys, {HOLDERS[asset]: before for asset, before, _ in moves}),
                "postBalances": _lamports(keys, {HOLDERS[asset]: after for asset, _, after in moves}),
                "preTokenBalances": _tokens(keys, [(asset, before) for asset, before, _ in moves]),
                "postTokenBalances": _tokens(keys, [(asset, after) for asset, _, after in moves]),
                "logMessages": facts.get("logs", []),
            },
        }
        for asset, _, _ in moves:
            self.entries.setdefault(HOLDERS[asset], []).insert(0, {"signature": tx, "slot": slot, "err": error})
        return tx


def _lamports(keys: Sequence[str], held: dict[str, int]) -> list[int]:
    return [RENT + held[one] if one == HOLDERS[Asset.SOL] else RENT if one in held else 10**9 for one in keys]


def _tokens(keys: Sequence[str], held: Sequence[tuple[Asset, int]]) -> list[Any]:
    return [
        {"accountIndex": keys.index(HOLDERS[asset]), "mint": str(MINTS[asset]), "uiTokenAmount": {"amount": str(units)}}
        for asset, units in held
    ]


def served(*nodes: Node, **changes: Any) -> ServedChain:
    chain = find_chain("solana-localnet")
    assert chain
    tokens = {asset: str(mint) for asset, mint in MINTS.items()}
    facts = {"escrow": str(TOKEN_ESCROW), "tokens": tokens, "first_block": 1, "owner": str(OWNER)}
    return ServedChain(chain=chain, rpc_urls=tuple(node.url for node in nodes), **{**facts, **changes})


def adapter(*nodes: Node, **changes: Any) -> SolanaChain:
    return SolanaChain.of(served(*nodes, **changes), SEED, SIGNERS, settings.MAX_PRIORITY_FEE_MICRO_LAMPORTS)


def tell(nodes: Sequence[Node], truth: Truth, liar: int | None = None, **lies: Any) -> SolanaChain:
    """Let one node lie and the others be honest."""
    for index, node in enumerate(nodes):
        node.answers = truth.answers(**(lies if index == liar else {}))
    return adapter(*nodes)
