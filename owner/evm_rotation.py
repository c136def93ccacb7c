"""Rotate the keys of an escrow on an EVM chain: its owner exchanges the policy signer and the relayers.

In a planned rotation, the new relayers are enabled first, and the old keys keep their power while they have payments in
flight. After a theft the order is reversed: payments in flight then revert, are voided with the new keys, and are given
back.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from django.conf import settings

from chains.evm.adapter import EvmChain
from chains.evm.configuration_check import Roles
from chains.evm.derivation import derive_account
from chains.evm.owner_calls import OwnerCall
from chains.port import ChainUnavailable
from owner.evm.calls import set_policy_signer, set_relayer
from owner.evm.deployment import MOST_RELAYERS
from owner.evm.roles import read_roles
from owner.evm_calling import WantedCalls, have_called
from owner.keys import read_optional_key
from owner.rotations import OLD_SEED, Rotated, Task, find_in_flight
from payments.models import Relayer
from services.served_chains import configured_roles, evm_chain


@dataclass(frozen=True, slots=True)
class Difference:
    """The calls that the owner has to make so that an escrow knows the configured keys and no others."""

    owner: str
    enabling: Sequence[OwnerCall]
    disabling: Sequence[OwnerCall]
    signing: Sequence[OwnerCall]

    @property
    def switching(self) -> Sequence[OwnerCall]:
        """The calls that take their power from the old keys; relayers first: none may be the policy signer."""
        return [*self.disabling, *self.signing]


def rotate(task: Task) -> Rotated:
    """Bring an escrow to the configured keys, by calls of its owner.

    Raises:
        ValueError: a variable is not what it should be.
        OperationRefused, ChainUnavailable: as `Sender` does.
        NotDoneYet: something has to be waited for.
    """
    return _Rotation(task).run()


class _Rotation:
    def __init__(self, task: Task) -> None:
        self._task, self._chain = task, evm_chain(task.caip2)
        self._ours = configured_roles()
        self._old = _find_old_relayers(task.caip2, self._ours)

    def run(self) -> Rotated:
        difference = self._find_difference()
        if difference.switching and self._task.is_now:
            self._task.stop()
        if not self._task.is_now:
            self._call(lambda found: found.enabling)
            if self._find_difference().switching:
                self._task.stop()
                self._task.wait(lambda: find_in_flight(self._task.caip2))
        # Disabled in the database first: no payment is given to a relayer that the escrow refuses.
        Relayer.objects.filter(chain=self._task.caip2, address__in=self._old).update(is_enabled=False)
        self._call(lambda found: [*found.switching, *found.enabling])
        return Rotated(facts=self._present())

    def _find_difference(self) -> Difference:
        found = read_roles(self._chain, [*self._ours.relayers, *self._old])
        escrow, ours = self._chain.served.escrow, self._ours
        signer = [] if found.policy_signer == ours.policy_signer else [set_policy_signer(escrow, ours.policy_signer)]
        return Difference(
            found.owner,
            [set_relayer(escrow, one, enabled=True) for one in ours.relayers if one not in found.enabled],
            [set_relayer(escrow, one, enabled=False) for one in self._old if one in found.enabled],
            signer,
        )

    def _call(self, choose: Callable[[Difference], Sequence[OwnerCall]]) -> None:
        """Have the owner make these calls, and wait until the chain shows their effect."""

        def find() -> WantedCalls:
            found = self._find_difference()
            return WantedCalls(found.owner, choose(found))

        have_called(self._task, self._chain, find, made_by="rotate_keys")

    def _present(self) -> dict[str, object]:
        unfunded = list(_find_without_gas_money(self._chain, self._ours.relayers))
        if unfunded:
            self._task.tell(
                f"{len(unfunded)} of {len(self._ours.relayers)} relayers have no gas money for a full queue of "
                f"transactions, and get no payments until they have: {', '.join(unfunded)}"
            )
        return {
            "policySigner": self._ours.policy_signer,
            "relayers": list(self._ours.relayers),
            "disabledRelayers": self._old,
            "relayersWithoutGasMoney": unfunded,
        }


def _find_old_relayers(chain: str, ours: Roles) -> list[str]:
    """List the relayers of other seeds: those that were ever registered, and all of the old seed, if that is known."""
    registered = list(Relayer.objects.filter(chain=chain).values_list("address", flat=True))
    seed = read_optional_key(OLD_SEED)
    derived = [] if seed is None else [derive_account(seed, number)[1] for number in range(MOST_RELAYERS)]
    return [one for one in dict.fromkeys([*registered, *derived]) if one not in ours.relayers]


def _find_without_gas_money(chain: EvmChain, relayers: Sequence[str]) -> Iterator[str]:
    try:
        states = chain.observer.observe_relayers(relayers)
    except ChainUnavailable:
        return
    for address in relayers:
        if states[address].affords < settings.MAX_IN_FLIGHT_PER_RELAYER:
            yield address
