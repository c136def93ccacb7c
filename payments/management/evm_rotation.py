"""Move an escrow on an EVM chain to other keys: the contract stays, its owner exchanges policy signer and relayers.

Planned, the new relayers are enabled first, and nothing is taken from the old keys while they have something in flight.
After a theft that order is turned round: what is in flight then reverts, is voided with the new keys, and comes back.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from django.conf import settings

from allowance.environment.configuration import SECP256K1_ORDER
from allowance.kernel.times import utc_now
from chains.evm.adapter import EvmChain
from chains.evm.configuration_check import Roles
from chains.evm.deployment import MOST_RELAYERS
from chains.evm.derivation import address_of, derive_account
from chains.evm.roles import OwnerCall, read_roles, set_policy_signer, set_relayer, write_safe_batch
from chains.evm.sending import Sender
from chains.port import ChainUnavailable
from payments.management.rotations import OLD_SEED, Rotated, Task, find_in_flight, read_optional_key
from payments.models import Relayer
from payments.served_chains import configured_roles, evm_chain

_OWNER_KEY = "DEPLOYER_KEY"


@dataclass(frozen=True, slots=True)
class Difference:
    """What the owner has to call so that an escrow knows the keys that are configured, and no others."""

    owner: str
    enabling: Sequence[OwnerCall]
    disabling: Sequence[OwnerCall]
    signing: Sequence[OwnerCall]

    @property
    def switching(self) -> Sequence[OwnerCall]:
        """What takes their power from the old keys: relayers first, since none may be the policy signer, too."""
        return [*self.disabling, *self.signing]


def rotate(task: Task) -> Rotated:
    """Bring an escrow to the keys that are configured, as far as that is done by calls of its owner.

    Raises:
        ValueError: a variable is not what it should be.
        OperationRefused, ChainUnavailable: as `Sender` does.
        NotYet: something has to be waited for.
    """
    return _Rotation(task).run()


class _Rotation:
    def __init__(self, task: Task) -> None:
        self._task, self._chain = task, evm_chain(task.caip2)
        self._ours = configured_roles()
        self._old = _find_old_relayers(task.caip2, self._ours)
        self._key = read_optional_key(_OWNER_KEY, 32, below=SECP256K1_ORDER)

    def run(self) -> Rotated:
        difference = self._look()
        if difference.switching and self._task.is_now:
            self._task.stop()
        if not self._task.is_now:
            self._call(lambda found: found.enabling)
            if self._look().switching:
                self._task.stop()
                self._task.wait(lambda: find_in_flight(self._task.caip2))
        # Switched off here first: no payment is given to a relayer that the escrow refuses.
        Relayer.objects.filter(chain=self._task.caip2, address__in=self._old).update(is_enabled=False)
        self._call(lambda found: [*found.switching, *found.enabling])
        return Rotated(facts=self._present())

    def _look(self) -> Difference:
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
        """Have the owner make these calls, and see that the chain shows them."""
        found = self._look()
        calls = choose(found)
        if not calls:
            return
        if self._key is not None and address_of(self._key) == found.owner:
            self._send(self._key, calls)
        else:
            self._show(found.owner, calls)
        self._task.wait(lambda: self._missing(choose))

    def _missing(self, choose: Callable[[Difference], Sequence[OwnerCall]]) -> str:
        left = choose(self._look())
        return f"the escrow's owner has still to call {len(left)}, {left[0].text} first." if left else ""

    def _send(self, key: bytes, calls: Sequence[OwnerCall]) -> None:
        sender = Sender(self._chain, key, self._task.tell)
        sender.check_chain()
        self._task.confirm(f"{sender.address}, the owner of {self._chain.served.escrow}, makes {len(calls)} calls.")
        for call in calls:
            self._task.tell(call.text)
            sender.send(bytes.fromhex(call.to.removeprefix("0x")), call.data, sender.next_nonce())

    def _show(self, owner: str, calls: Sequence[OwnerCall]) -> None:
        self._task.tell(f"The owner {owner} has to call, in this order, of {self._chain.served.escrow}:")
        for call in calls:
            self._task.tell(f"  {call.text}")
        self._task.tell("Or, if it is a Safe, all at once, by its Transaction Builder:")
        chain = self._chain.served.chain
        created_at_ms = int(utc_now().timestamp() * 1000)
        name = f"Allowance: keys on {chain.alias}"
        self._task.show(write_safe_batch(calls, chain_id=chain.chain_id, name=name, created_at_ms=created_at_ms))

    def _present(self) -> dict[str, object]:
        poor = list(_find_poor(self._chain, self._ours.relayers))
        if poor:
            self._task.tell(
                f"{len(poor)} of {len(self._ours.relayers)} relayers have no gas money for a full line of "
                f"transactions, and get no payments until they have: {', '.join(poor)}"
            )
        return {
            "policySigner": self._ours.policy_signer,
            "relayers": list(self._ours.relayers),
            "disabledRelayers": self._old,
            "relayersWithoutGasMoney": poor,
        }


def _find_old_relayers(chain: str, ours: Roles) -> list[str]:
    """List the relayers of other seeds: those that were ever registered, and all of the old seed, if that is known."""
    registered = list(Relayer.objects.filter(chain=chain).values_list("address", flat=True))
    seed = read_optional_key(OLD_SEED, 64)
    derived = [] if seed is None else [derive_account(seed, number)[1] for number in range(MOST_RELAYERS)]
    return [one for one in dict.fromkeys([*registered, *derived]) if one not in ours.relayers]


def _find_poor(chain: EvmChain, relayers: Sequence[str]) -> Iterator[str]:
    try:
        sightings = chain.observe_relayers(relayers)
    except ChainUnavailable:
        return
    for address in relayers:
        if sightings[address].affords < settings.MAX_IN_FLIGHT_PER_RELAYER:
            yield address
