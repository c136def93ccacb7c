"""Read the events of the escrow: deposits, outflows, voids. Pure.

Each reader raises `ValueError`, `KeyError` or `TypeError` for a malformed event, as those of `answers` do.
"""

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from chains.evm.answers import read_count, read_hash, read_number
from chains.port import DepositEvent, OutflowEvent, VoidEvent
from foundation.kernel.assets import Asset
from foundation.kernel.money import from_base_units

DEPOSITED = "0x" + keccak(text="Deposited(address,address,string,uint256)").hex()
VOIDED = "0x" + keccak(text="Voided(bytes32)").hex()
WITHDRAWN = "0x" + keccak(text="Withdrawn(address,address,uint256)").hex()


def read_deposit(log: Mapping[str, Any], escrow: str, assets: Mapping[str, Asset]) -> DepositEvent:
    """Read the escrow's `Deposited` event, whose text may be any bytes; `assets` by lower-case address of the token."""
    if (log["address"].lower(), log["topics"][0].lower()) != (escrow.lower(), DEPOSITED):
        raise ValueError("not a deposit")
    depositor, token = (_address_of(topic[-40:]) for topic in log["topics"][1:3])
    try:
        text, units = decode(["bytes", "uint256"], bytes.fromhex(log["data"].removeprefix("0x")))
    except DecodingError as error:
        raise ValueError("not the data of a deposit") from error
    asset = assets.get(token.lower())
    return DepositEvent(
        tx=read_hash(log["transactionHash"]),
        log_index=read_count(log["logIndex"]),
        block_number=read_count(log["blockNumber"]),
        depositor=depositor,
        token=token,
        asset=asset,
        amount=Decimal(units) if asset is None else from_base_units(units, asset),
        # PostgreSQL cannot store U+0000.
        named_agent=text.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}"),
    )


def read_outflow(log: Mapping[str, Any], escrow: str, assets: Mapping[str, Asset]) -> OutflowEvent:
    """Read the escrow's `Paid` or `Withdrawn` event; `assets` by lower-case address of the token."""
    _check_emitter(log, escrow)
    *ids, token_topic, recipient_topic = log["topics"][1:]
    token, recipient = (_address_of(topic[-40:]) for topic in (token_topic, recipient_topic))
    asset, units = assets.get(token.lower()), read_number(log["data"])
    return OutflowEvent(
        tx=read_hash(log["transactionHash"]),
        log_index=read_count(log["logIndex"]),
        block_number=read_count(log["blockNumber"]),
        block_hash=read_hash(log["blockHash"]),
        token=token,
        asset=asset,
        amount=Decimal(units) if asset is None else from_base_units(units, asset),
        recipient=recipient,
        escrow_id=read_hash(ids[0]) if ids else "",
    )


def read_void(log: Mapping[str, Any], escrow: str) -> VoidEvent:
    """Read the escrow's `Voided` event."""
    _check_emitter(log, escrow)
    return VoidEvent(
        tx=read_hash(log["transactionHash"]),
        log_index=read_count(log["logIndex"]),
        block_number=read_count(log["blockNumber"]),
        escrow_id=read_hash(log["topics"][1]),
    )


@lru_cache(maxsize=4096)
def _address_of(digits: str) -> str:
    """Read an address from the last 40 digits of a topic, of which nodes may send any number.

    Its checksum is a hash, and the same tokens and payees come again and again.
    """
    return to_checksum_address("0x" + digits)


def _check_emitter(log: Mapping[str, Any], escrow: str) -> None:
    if log["address"].lower() != escrow.lower():
        raise ValueError("not an event of the escrow")
