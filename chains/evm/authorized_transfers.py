"""Read from the logs of transactions what payees took by authorizations (EIP-3009). Pure.

A token says only that an authorization of the escrow was used; what it moved is in its next event, a transfer from the
escrow in the same transaction. One that is not followed by such a transfer counts as an outflow of nothing to nobody,
which no payment of ours is. Nodes are asked for the first event alone, for which both keys must have signed. Transfers
from the escrow are read in the receipts of these transactions only: anybody can make a token emit others, of nothing.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from chains.evm.answers import TRANSFER, read_count, read_hash, read_number, topic_of
from chains.port import OutflowEvent
from foundation.kernel.assets import Asset
from foundation.kernel.money import from_base_units

USED = "0x" + keccak(text="AuthorizationUsed(address,bytes32)").hex()
_TOPICS = 3  # both events have two indexed fields
_ADDRESS_DIGITS = 40


def read_authorized_outflows(
    logs: Sequence[Mapping[str, Any]], escrow: str, assets: Mapping[str, Asset]
) -> list[OutflowEvent]:
    """Read what was taken by authorizations from all logs of transactions; `assets` by lower-case address of the token.

    Raises `ValueError`, `KeyError` or `TypeError` for a malformed event. Other events are left out.
    """
    found = []
    relevant = [log for log in logs if _is_of(log, escrow, assets)]
    relevant.sort(key=lambda log: (read_count(log["blockNumber"]), read_count(log["logIndex"])))
    for index, log in enumerate(relevant):
        if log["topics"][0].lower() == USED:
            later = (other for other in relevant[index + 1 :] if other["address"].lower() == log["address"].lower())
            found.append(_outflow(log, next(later, None), assets))
    return found


def _outflow(used: Mapping[str, Any], following: Mapping[str, Any] | None, assets: Mapping[str, Asset]) -> OutflowEvent:
    asset, tx = assets[used["address"].lower()], read_hash(used["transactionHash"])
    amount, recipient = Decimal(0), ""
    if following is not None and _is_transfer_in(following, tx):
        amount = from_base_units(read_number(following["data"]), asset)
        recipient = to_checksum_address("0x" + following["topics"][2][-_ADDRESS_DIGITS:])
    return OutflowEvent(
        tx=tx,
        log_index=read_count(used["logIndex"]),
        block_number=read_count(used["blockNumber"]),
        block_hash=read_hash(used["blockHash"]),
        token=to_checksum_address(used["address"]),
        asset=asset,
        amount=amount,
        recipient=recipient,
        escrow_id=read_hash(used["topics"][2]),
    )


def _is_transfer_in(log: Mapping[str, Any], tx: str) -> bool:
    return log["topics"][0].lower() == TRANSFER and read_hash(log["transactionHash"]) == tx


def _is_of(log: Mapping[str, Any], escrow: str, assets: Mapping[str, Asset]) -> bool:
    topics = [topic.lower() for topic in log["topics"]]
    is_kind = len(topics) == _TOPICS and topics[0] in (USED, TRANSFER)
    return is_kind and log["address"].lower() in assets and topics[1] == topic_of(escrow)
