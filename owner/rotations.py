"""The task of `rotate_keys` and `move_escrow`: its options, how it waits, and its result."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from chains.catalogue import ServedChain
from chains.port import ChainUnavailable
from foundation.commands import AUTHOR
from payments.lifecycle import OPEN_STATES, PaymentStatus
from payments.models import Payment, Settlement
from payments.settling.chain_switch import stop_signing_on

T = TypeVar("T")

# The old seed, and the old policy signer's key on Solana. Each is set only while keys are rotated, and only if known.
OLD_SEED, OLD_SOLANA_KEY = "OLD_RELAYER_SEED", "OLD_POLICY_SIGNER_SOLANA_KEY"
ROTATED = "The keys are being rotated (rotate_keys)."
_PAUSE_S = 2.0
_REPEAT_EVERY_S = 60.0


class NotDoneYet(Exception):
    """Raise if the command has to wait for something, and was told not to wait."""


@dataclass(frozen=True, slots=True)
class Task:
    """A chain whose escrow gets the keys that are configured here.

    `is_now`: take their power from the old keys without waiting for payments in flight. `tell` reports progress, `show`
    prints what people have to copy, `confirm` asks and raises if the answer is no. Without `is_waiting`, `wait` raises
    at once. `old_escrow`: an escrow of earlier keys to be emptied, besides those that are known.
    """

    served: ServedChain
    is_now: bool
    is_waiting: bool
    old_escrow: str | None
    tell: Callable[[str], None]
    show: Callable[[str], None]
    confirm: Callable[[str], None]

    @property
    def caip2(self) -> str:
        return self.served.chain.caip2

    def stop(self, reason: str = ROTATED) -> None:
        """Stop signing on the chain: whatever was signed from here on would be signed for the old escrow or keys."""
        state = stop_signing_on(self.caip2, by=AUTHOR, reason=reason)
        self.tell(f"Signing on {self.served.chain.alias} is stopped: {state.stopped_reason}")

    def wait(self, look: Callable[[], str]) -> None:
        """Call `look` until it returns "": there is nothing left to wait for.

        Raises:
            NotDoneYet: there is something to wait for, and the command was told not to wait.
        """
        reported, reported_at = "", 0.0
        while text := _try(look):
            if not self.is_waiting:
                raise NotDoneYet(text)
            now = time.monotonic()
            if text != reported or now - reported_at > _REPEAT_EVERY_S:
                self.tell(f"Waiting: {text}")
                reported, reported_at = text, now
            time.sleep(_PAUSE_S)

    def ask(self, read: Callable[[], T]) -> T:
        """Ask a chain until it answers.

        Raises:
            NotDoneYet: it does not answer, and the command was told not to wait.
        """
        found: list[T] = []

        def look() -> str:
            found.append(read())
            return ""

        self.wait(look)
        return found[0]


@dataclass(frozen=True, slots=True)
class Rotated:
    """The result of a rotation. `variables` are to be set besides the keys; `facts` go into the JSON output.

    `is_to_be_set`: the processes have still to be started with the new keys.
    """

    is_to_be_set: bool = True
    variables: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


def find_in_flight(chain: str) -> str:
    """Say what is in flight on a chain; "": no payment is, and no transaction of ours is open."""
    payments = Payment.objects.filter(chain=chain, status=PaymentStatus.APPROVED).count()
    transactions = Settlement.objects.filter(chain=chain, state__in=OPEN_STATES).count()
    if not payments and not transactions:
        return ""
    return f"{payments} payments and {transactions} transactions are in flight; the workers follow them."


def _try(look: Callable[[], str]) -> str:
    try:
        return look()
    except ChainUnavailable as error:
        return str(error)
