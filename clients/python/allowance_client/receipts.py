"""Verify log entries as receipts: that each is what the policy signer sealed, and that none is missing between them.

Source: docs/integrate/receipts.md.
"""

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from typing import Any

import rfc8785

from allowance_client.errors import ReceiptInvalid
from allowance_client.models import LogEntry
from allowance_client.public_keys import Jwks, find_key, from_base64url, is_signed

FIRST_PREVIOUS_HASH = "0" * 64
Receipt = LogEntry | Mapping[str, Any]
_SEAL = {"hash", "signature"}
_MEMBERS = frozenset(
    (
        "id", "agentId", "service", "amount", "asset", "result", "rule", "createdAt",
        "reason", "metadata", "policyRevision", "paymentId", "tx", "explanation",
        "hash", "previousHash", "signature", "keyId",
    )
)  # fmt: skip


def verify_receipt(receipt: Receipt, keys: Jwks) -> None:
    """Check one log entry, whole as it came, against the published keys (a JWKS).

    Raises:
        ReceiptInvalid: names the first thing that is wrong.
    """
    raw = _raw_of(receipt)
    if missing := _MEMBERS - raw.keys():
        raise ReceiptInvalid(f"The member {min(missing)} is missing.")
    document = _signed_bytes(raw)
    if not hmac.compare_digest(hashlib.sha256(document).hexdigest().encode(), str(raw["hash"]).encode()):
        raise ReceiptInvalid("The hash does not match the contents: a member was changed.")
    try:
        key = find_key(keys, str(raw["keyId"]))
        signature = from_base64url(str(raw["signature"]))
    except ValueError as error:
        raise ReceiptInvalid(f"The key or the signature cannot be read: {error}") from error
    if key is None:
        raise ReceiptInvalid("The key is not among the published keys.")
    if not is_signed(key, signature, document):
        raise ReceiptInvalid("The signature is not the policy signer's.")


def verify_receipts(receipts: Iterable[Receipt], keys: Jwks, *, from_the_first: bool = False) -> int:
    """Check log entries, newest first as the log lists them, and that none is missing between those of one agent.

    Give all entries: with `result` the list has gaps. `from_the_first`: the oldest of each agent must be its first.
    Returns how many there were. What no chain can show is that newer ones were cut off.

    Raises:
        ReceiptInvalid: names the first entry that is wrong, or the gap.
    """
    wanted: dict[str, str] = {}
    count = 0
    for receipt in receipts:
        count += 1
        verify_receipt(receipt, keys)
        raw = _raw_of(receipt)
        agent_id = str(raw["agentId"])
        if wanted.get(agent_id, raw["hash"]) != raw["hash"]:
            raise ReceiptInvalid(f"An entry is missing, or out of place, right after {raw['id']}.")
        wanted[agent_id] = str(raw["previousHash"])
    if from_the_first and set(wanted.values()) - {FIRST_PREVIOUS_HASH}:
        raise ReceiptInvalid("The oldest entry is not the agent's first.")
    return count


def _raw_of(receipt: Receipt) -> Mapping[str, Any]:
    return receipt.raw if isinstance(receipt, LogEntry) else receipt


def _signed_bytes(raw: Mapping[str, Any]) -> bytes:
    try:
        return rfc8785.dumps({name: value for name, value in raw.items() if name not in _SEAL})
    except (rfc8785.CanonicalizationError, RecursionError, UnicodeError) as error:
        raise ReceiptInvalid("The receipt has no canonical form.") from error
