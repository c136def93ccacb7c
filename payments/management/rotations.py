"""What `rotate_keys` is to do on any chain, how it waits, and what comes of it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from allowance.environment.configuration import Configuration
from chains.catalogue import ServedChain
from chains.port import ChainUnavailable
from payments.lifecycle import OPEN_STATES, PaymentStatus
from payments.models import Payment, Settlement
from payments.settling.chain_switch import stop_signing_on

T = TypeVar("T")

# The old seed, and the old policy signer's key on Solana; each only while keys are rotated, and only if it is known.
OLD_SEED, OLD_SOLANA_KEY = "OLD_RELAYER_SEED", "OLD_POLICY_SIGNER_SOLANA_KEY"
_REASON = "The keys are being rotated (rotate_keys)."
_PAUSE_S = 2.0
_TELL_EVERY_S = 60.0


class NotYet(Exception):
    """Raise when something has to be waited for, and the caller does not want to."""


@dataclass(frozen=True, slots=True)
class Task:
    """A chain whose escrow moves to the keys that are configured here.

    `is_now`: what is in flight is not waited for before the old keys lose their power. `confirm` raises if that is not
    wanted; `show` is for what people have to copy. Without `is_waiting`, `wait` gives up at once. `old_escrow`: an
    escrow of earlier keys to be emptied, besides those that are known.
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

    def stop(self) -> None:
        """Stop signing on the chain: whatever is signed from here on would be signed with keys that go."""
        state = stop_signing_on(self.caip2, reason=_REASON)
        self.tell(f"Signing on {self.served.chain.alias} is stopped: {state.stopped_reason}")

    def wait(self, look: Callable[[], str]) -> None:
        """Look until there is nothing to wait for any more, which is what "" says.

        Raises:
            NotYet: there is, and it is not to be waited for.
        """
        told, told_at = "", 0.0
        while text := _try(look):
            if not self.is_waiting:
                raise NotYet(text)
            now = time.monotonic()
            if text != told or now - told_at > _TELL_EVERY_S:
                self.tell(f"Waiting: {text}")
                told, told_at = text, now
            time.sleep(_PAUSE_S)

    def ask(self, read: Callable[[], T]) -> T:
        """Ask a chain until it answers.

        Raises:
            NotYet: it does not, and it is not to be waited for.
        """
        found: list[T] = []

        def look() -> str:
            found.append(read())
            return ""

        self.wait(look)
        return found[0]


@dataclass(frozen=True, slots=True)
class Rotated:
    """What a rotation came to. `variables` are to be set besides the keys; `facts` are for programs.

    `is_to_be_set`: the processes have still to be started with the keys.
    """

    is_to_be_set: bool = True
    variables: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


def find_in_flight(chain: str) -> str:
    """Say what is in flight on a chain; "": nothing is, and no transaction of ours waits for a block."""
    payments = Payment.objects.filter(chain=chain, status=PaymentStatus.APPROVED).count()
    transactions = Settlement.objects.filter(chain=chain, state__in=OPEN_STATES).count()
    if not payments and not transactions:
        return ""
    return f"{payments} payments and {transactions} transactions are in flight; the workers follow them."


def read_optional_key(name: str, length: int, *, below: int | None = None) -> bytes | None:
    """Read a key that need not be there; None: it is not.

    Raises:
        ValueError: it is set, and no key.
    """
    configuration = Configuration()
    key = configuration.optional_key(name, length, below=below)
    if configuration.problems:
        raise ValueError(" ".join(configuration.problems))
    return key


def _try(look: Callable[[], str]) -> str:
    try:
        return look()
    except ChainUnavailable as error:
        return str(error)
