"""The Solana chain of a run: what the transactions of the escrow's accounts say."""

import base64
import hashlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import base58
from django.conf import settings
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from spl.memo.constants import MEMO_PROGRAM_ID
from spl.token.constants import ACCOUNT_LEN, TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID
from spl.token.instructions import get_associated_token_address

from foundation.environment.keys import held_key
from foundation.kernel.assets import Asset
from payments.models import Relayer, Settlement
from tests.crash.localnets import Asking, Deposited, Paid
from workshop.localnet import rpc, solana_server

SEND, STATUSES, BLOCKHASH = "sendTransaction", "getSignatureStatuses", "getLatestBlockhash"
SIGNATURES, TRANSACTION = "getSignaturesForAddress", "getTransaction"
_ANSWER_S = 30
_PAGE = 1_000
_FROZEN = 2
_SEED_LENGTH = 32
_FINAL = {"commitment": "finalized"}
_NOTHING = (0, "", "")


def solana_rpc(method: str, *parameters: Any) -> Any:
    """Ask the node of the run, with nothing of ours in between."""
    return rpc.request(settings.CHAINS[SolanaLocalnet.caip2].rpc_urls[0], method, *parameters, timeout_s=_ANSWER_S)


class SolanaLocalnet:
    """The embedded Solana node, which pays in SOL and in PYUSD, a token of the newer program, here."""

    alias = "solana-localnet"
    caip2 = "solana:344CYC6QPrjfKUUBqcXLDFNyf9NBqJLa"
    assets = (Asset.SOL, Asset.PYUSD)
    server = solana_server
    asking = Asking(
        send=(SEND,),
        seek=(STATUSES,),
        prove=(STATUSES, "getFirstAvailableBlock"),
        observe=(BLOCKHASH,),
        deposits=(SIGNATURES,),
    )

    def __init__(self) -> None:
        self._mints = {asset: Pubkey.from_string(settings.CHAINS[self.caip2].tokens[asset]) for asset in self.assets}
        self._programs = {asset: _program(asset) for asset in self.assets}
        self._relayer = Keypair.from_seed_and_derivation_path(held_key("RELAYER_SEED"), "m/44'/501'/0'/0'").pubkey()
        self._owner = Pubkey.from_string(settings.CHAINS[self.caip2].owner or "")
        self._policy_signer = Keypair.from_seed(held_key("POLICY_SIGNER_SOLANA_KEY")).pubkey()
        self._rent = int(self.ask("getMinimumBalanceForRentExemption", ACCOUNT_LEN))
        # By signature; a final transaction stays as it is.
        self._transactions: dict[str, dict[str, Any]] = {}

    def ask(self, method: str, *parameters: Any) -> Any:
        return solana_rpc(method, *parameters)

    def mint(self, asset: Asset) -> tuple[Pubkey, Pubkey]:
        """Give the mint of an asset and the program that it belongs to."""
        return self._mints[asset], self._programs[asset]

    def account_of(self, owner: Pubkey, asset: Asset) -> Pubkey:
        """Derive where somebody holds an asset."""
        return get_associated_token_address(owner, *self.mint(asset))

    def vault(self, asset: Asset) -> Pubkey:
        """Derive where the escrow holds an asset: in an account of the three signers' multisig."""
        named = hashlib.sha256(bytes(self._policy_signer) + bytes(self._owner)).digest()
        seed = base58.b58encode(named).decode()[:_SEED_LENGTH]
        return self.account_of(Pubkey.create_with_seed(self._relayer, seed, self._programs[asset]), asset)

    def read_offer(self, call: dict[str, Any]) -> tuple[str, bytes]:
        raw = base64.b64decode(call["params"][0])
        return base58.b58encode(raw[1:65]).decode(), raw

    def new_recipients(self, asset: Asset) -> list[str]:
        empty = [str(Keypair().pubkey()) for _ in range(2)]
        return empty if asset is Asset.SOL else [*empty, self._new_frozen_recipient(asset)]

    def _new_frozen_recipient(self, asset: Asset) -> str:
        """Make an address whose account of a token the issuer has frozen: nobody can pay it."""
        recipient = Keypair().pubkey()
        account = self.ask("getAccountInfo", str(self.vault(asset)), {**_FINAL, "encoding": "base64"})["value"]
        # Mint, owner, amount, delegate, state; behind it as it is.
        data = bytearray(base64.b64decode(account["data"][0]))
        data[32:72], data[108] = bytes(recipient) + bytes(8), _FROZEN
        account = {**account, "data": [base64.b64encode(data).decode(), "base64"]}
        self.ask("dev_setAccount", str(self.account_of(recipient, asset)), account)
        return str(recipient)

    def count_newest(self) -> int:
        entries = self._entries(self.vault(Asset.SOL), "confirmed", limit=_PAGE)
        return sum(entry["confirmationStatus"] != "finalized" for entry in entries)

    def reorganise(self, depth: int, *, keeps_transactions: bool) -> None:
        self.ask("dev_reorganise", depth, keeps_transactions)

    def find_paid(self) -> list[Paid]:
        found = []
        for asset in self.assets:
            for tx, transaction in self._history(asset):
                change = self._change(transaction, asset)
                if change < 0:
                    found += self._read_paid(tx, transaction, asset, -change)
        return found

    def _read_paid(self, tx: str, transaction: dict[str, Any], asset: Asset, units: int) -> list[Paid]:
        """Read what left the escrow: payment by payment, if each has its memo and all has arrived."""
        gains = list(_gains(transaction, asset, str(self._mints[asset])))
        sent = list(_sent(transaction, asset, str(self.vault(asset))))
        owed = {to: sum(part for _, other, part in sent if other == to) for _, to, _ in sent}
        if sum(owed.values()) == units and owed.items() <= set(gains):
            return [Paid(memo, tx, asset, to, part) for memo, to, part in sent]
        recipient = ", ".join(owner if gain == units else f"{owner} +{gain}" for owner, gain in gains)
        return [Paid(_memo(transaction), tx, asset, recipient, units)]

    def find_deposited(self) -> list[Deposited]:
        found = []
        for asset in self.assets:
            for tx, transaction in self._history(asset):
                change = self._change(transaction, asset)
                if change > 0:
                    index = _keys(transaction).index(str(self.vault(asset)))
                    found.append(Deposited(tx, index, _memo(transaction), asset, change))
        return found

    def held(self, asset: Asset) -> int:
        vault = str(self.vault(asset))
        if asset is not Asset.SOL:
            return self._tokens_in(vault)
        return int(self.ask("getBalance", vault, _FINAL)["value"]) - self._rent

    def balance_of(self, owner: str, asset: Asset) -> int:
        if asset is Asset.SOL:
            return int(self.ask("getBalance", owner, _FINAL)["value"])
        return self._tokens_in(str(self.account_of(Pubkey.from_string(owner), asset)))

    def find_gaps(self) -> Iterator[str]:
        for relayer in Relayer.objects.filter(chain=self.caip2).exclude(address=str(self._relayer)):
            yield f"{relayer} cannot sign for this escrow."
        for row in Settlement.objects.filter(chain=self.caip2, first_payment=None):
            yield f"{row.tx} pays nothing, on a chain that has no nonces to fill."

    def has_come_to_rest(self) -> bool:
        return True

    def _change(self, transaction: dict[str, Any], asset: Asset) -> int:
        """Tell by how much the escrow has more after a transaction; of lamports, what is above the rent counts."""
        index = _keys(transaction).index(str(self.vault(asset)))
        if asset is Asset.SOL:
            has, had = (transaction["meta"][f"{when}Balances"][index] for when in ("post", "pre"))
            return int(max(has - self._rent, 0) - max(had - self._rent, 0))
        return _tokens(transaction, "post")[index][0] - _tokens(transaction, "pre").get(index, _NOTHING)[0]

    def _tokens_in(self, account: str) -> int:
        found = self.ask("getAccountInfo", account, {**_FINAL, "encoding": "base64"})["value"]
        # Behind mint and owner.
        return 0 if found is None else int.from_bytes(base64.b64decode(found["data"][0])[64:72], "little")

    def _history(self, asset: Asset) -> Iterator[tuple[str, dict[str, Any]]]:
        """Read the transactions that did something with the escrow's account, newest first."""
        vault = self.vault(asset)
        before: dict[str, str] = {}
        while entries := self._entries(vault, "finalized", **before):
            for entry in entries:
                if entry["err"] is None:
                    yield entry["signature"], self._transaction(entry["signature"])
            before = {"before": entries[-1]["signature"]}

    def _entries(self, account: Pubkey, commitment: str, **options: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask(SIGNATURES, str(account), {"commitment": commitment, **options})
        return found

    def _transaction(self, signature: str) -> dict[str, Any]:
        if signature not in self._transactions:
            options = {**_FINAL, "encoding": "json", "maxSupportedTransactionVersion": 0}
            self._transactions[signature] = self.ask(TRANSACTION, signature, options)
        return self._transactions[signature]


def _program(asset: Asset) -> Pubkey:
    return TOKEN_2022_PROGRAM_ID if asset is Asset.PYUSD else TOKEN_PROGRAM_ID


def _keys(transaction: dict[str, Any]) -> list[str]:
    loaded = transaction["meta"].get("loadedAddresses") or {"writable": [], "readonly": []}
    return [*transaction["transaction"]["message"]["accountKeys"], *loaded["writable"], *loaded["readonly"]]


def _memo(transaction: dict[str, Any]) -> str:
    """Read what a transaction says of itself; "" unless it says one thing."""
    keys = _keys(transaction)
    memos = [
        base58.b58decode(one["data"]).decode()
        for one in transaction["transaction"]["message"]["instructions"]
        if keys[one["programIdIndex"]] == str(MEMO_PROGRAM_ID)
    ]
    return memos[0] if len(memos) == 1 else ""


def _tokens(transaction: dict[str, Any], when: str) -> dict[int, tuple[int, str, str]]:
    """Read who holds what, by index of the account: base units, mint, owner."""
    found = transaction["meta"][f"{when}TokenBalances"]
    return {one["accountIndex"]: (int(one["uiTokenAmount"]["amount"]), one["mint"], one["owner"]) for one in found}


def _gains(transaction: dict[str, Any], asset: Asset, mint: str) -> Iterator[tuple[str, int]]:
    """Tell who has more of an asset than before, and by how much."""
    if asset is Asset.SOL:
        meta = transaction["meta"]
        changes = zip(_keys(transaction), meta["preBalances"], meta["postBalances"], strict=True)
        gains = [(key, after - before) for key, before, after in changes]
    else:
        before, after = _tokens(transaction, "pre"), _tokens(transaction, "post")
        gains = [(owner, has - before.get(at, _NOTHING)[0]) for at, (has, its, owner) in after.items() if its == mint]
    return ((owner, gain) for owner, gain in gains if gain > 0)


def _sent(transaction: dict[str, Any], asset: Asset, vault: str) -> Iterator[tuple[str, str, int]]:
    """Read memo, recipient and units of each transfer out of the escrow that has a memo right before it."""
    keys, steps = _keys(transaction), transaction["transaction"]["message"]["instructions"]
    owners = {keys[at]: owner for at, (_, _, owner) in _tokens(transaction, "post").items()}
    for place, (before, one) in enumerate(pairwise(steps), start=1):
        data, accounts = base58.b58decode(one["data"]), [keys[at] for at in one["accounts"]]
        if keys[before["programIdIndex"]] != str(MEMO_PROGRAM_ID) or accounts[:1] != [vault]:
            continue
        # Lamports are passed on once the account in which they were unwrapped is closed.
        to = keys[steps[place + 2]["accounts"][1]] if asset is Asset.SOL else owners[accounts[2]]
        yield base58.b58decode(before["data"]).decode(), to, int.from_bytes(data[1:9], "little")
