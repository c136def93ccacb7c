"""Offer signed transactions to nodes."""

import base64
import logging
from collections.abc import Sequence
from typing import Any

from allowance.kernel.repeated_logs import log_once_a_minute
from chains.rpc.nodes import Nodes
from chains.rpc.transport import Call, RpcError
from chains.solana.failures import is_lack_of_gas_money

log = logging.getLogger(__name__)

# What a node that tries a transaction out says of one that would be in a block, and fail there.
_FAILURES = ("InstructionError", "InsufficientFundsForRent")


def offer(nodes: Nodes, raws: Sequence[bytes]) -> list[str | None]:
    """Offer transactions to every node; returns for each why none took it, None if one did.

    Nodes try them out first. What would fail on the chain is offered once more without that: once it has failed there,
    that is proven, long before it would have expired. What would fail for want of gas money only is not sent to fail.

    Raises:
        ChainUnavailable: no node answered.
    """
    heard = nodes.ask_each([_call(raw) for raw in raws])
    refusals = [_find_refusal([answers[index] for answers in heard], raw) for index, raw in enumerate(raws)]
    failing = [index for index, refusal in enumerate(refusals) if refusal and _would_fail(refusal, raws[index])]
    if failing:
        for index in failing:
            log_once_a_minute(
                log,
                logging.WARNING,
                "A transaction will fail on the chain, and is sent all the same: %s",
                refusals[index],
            )
        heard = nodes.ask_each([_call(raws[index], is_tried=False) for index in failing])
        for position, index in enumerate(failing):
            refusals[index] = _find_refusal([answers[position] for answers in heard], raws[index])
    return [None if refusal is None else str(refusal) for refusal in refusals]


def _call(raw: bytes, *, is_tried: bool = True) -> Call:
    options = {"encoding": "base64", "preflightCommitment": "confirmed", "maxRetries": 0, "skipPreflight": not is_tried}
    return ("sendTransaction", base64.b64encode(raw).decode(), options)


def has_it_already(refusal: RpcError) -> bool:
    """Tell whether a node refuses a transaction because it is in a block."""
    return bool(_error(refusal) == "AlreadyProcessed")


def _find_refusal(answers: Sequence[Any], raw: bytes) -> RpcError | None:
    """Find why no node took a transaction, first of all that it would fail; None if one took it, or has it already."""
    refusals = [answer for answer in answers if isinstance(answer, RpcError)]
    if len(refusals) < len(answers) or any(map(has_it_already, refusals)):
        return None
    return next((refusal for refusal in refusals if _would_fail(refusal, raw)), refusals[0])


def _would_fail(refusal: RpcError, raw: bytes) -> bool:
    error = _error(refusal)
    is_failure = isinstance(error, dict) and any(kind in error for kind in _FAILURES)
    return is_failure and not is_lack_of_gas_money(error, raw)


def _error(refusal: RpcError) -> Any:
    return refusal.data.get("err") if isinstance(refusal.data, dict) else None
