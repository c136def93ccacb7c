"""Submit signed transactions to nodes."""

import base64
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from chains.rpc.nodes import Nodes
from chains.rpc.transport import Call, RpcError
from chains.solana.failures import is_lack_of_gas_money
from foundation.kernel.repeated_logs import log_once_a_minute

log = logging.getLogger(__name__)

# The errors of a node that simulates a transaction which a block would include, but which would fail there.
_FAILURES = ("InstructionError", "InsufficientFundsForRent")


class SolanaBroadcaster:
    """Submits transactions; see `Broadcaster`.

    Nodes simulate a transaction first. One that would fail on the chain is submitted again without simulation: its
    failure on the chain proves it, long before the transaction would expire. One that would fail only for lack of gas
    money is not submitted to fail.
    """

    # Leaders change every 1.6 s.
    resend_after = timedelta(seconds=2)

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def send(self, raws: Sequence[bytes]) -> list[str | None]:
        replies = self._nodes.ask_each([_call(raw) for raw in raws])
        refusals = [_find_refusal([reply.said[index] for reply in replies], raw) for index, raw in enumerate(raws)]
        failing = [index for index, refusal in enumerate(refusals) if refusal and _would_fail(refusal, raws[index])]
        if failing:
            for index in failing:
                log_once_a_minute(
                    log,
                    logging.WARNING,
                    "A transaction will fail on the chain, and is submitted all the same: %s",
                    refusals[index],
                )
            replies = self._nodes.ask_each([_call(raws[index], is_simulated=False) for index in failing])
            for position, index in enumerate(failing):
                refusals[index] = _find_refusal([reply.said[position] for reply in replies], raws[index])
        return [None if refusal is None else str(refusal) for refusal in refusals]


def _call(raw: bytes, *, is_simulated: bool = True) -> Call:
    options = {
        "encoding": "base64",
        "preflightCommitment": "confirmed",
        "maxRetries": 0,
        "skipPreflight": not is_simulated,
    }
    return ("sendTransaction", base64.b64encode(raw).decode(), options)


def is_already_processed(refusal: RpcError) -> bool:
    """Return whether a node refuses a transaction because a block includes it already."""
    return bool(_error(refusal) == "AlreadyProcessed")


def _find_refusal(answers: Sequence[Any], raw: bytes) -> RpcError | None:
    """Return why no node accepted a transaction, preferably that it would fail; None if one accepted or has it."""
    refusals = [answer for answer in answers if isinstance(answer, RpcError)]
    if len(refusals) < len(answers) or any(map(is_already_processed, refusals)):
        return None
    return next((refusal for refusal in refusals if _would_fail(refusal, raw)), refusals[0])


def _would_fail(refusal: RpcError, raw: bytes) -> bool:
    error = _error(refusal)
    is_failure = isinstance(error, dict) and any(kind in error for kind in _FAILURES)
    return is_failure and not is_lack_of_gas_money(error, raw)


def _error(refusal: RpcError) -> Any:
    return refusal.data.get("err") if isinstance(refusal.data, dict) else None
