"""Have the owner of an EVM escrow make calls, and wait until the chain shows what they did."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chains.evm.adapter import EvmChain
from chains.evm.derivation import address_of
from chains.evm.owner_calls import OwnerCall
from owner.calls import show_owner_calls
from owner.evm.sending import Sender
from owner.keys import deployer_key
from owner.rotations import Task


@dataclass(frozen=True, slots=True)
class WantedCalls:
    """What the `owner` of an escrow has still to call."""

    owner: str
    calls: Sequence[OwnerCall]


def have_called(task: Task, chain: EvmChain, find: Callable[[], WantedCalls], *, made_by: str) -> None:
    """Make the calls that `find` finds, or print them for their owner, and wait until it finds none.

    `DEPLOYER_KEY` makes them, if it is the owner's. `made_by`: the command that asks for them.

    Raises:
        ValueError: `DEPLOYER_KEY` is no key.
        OperationRefused, ChainUnavailable: as `Sender` does.
        NotDoneYet: the owner has still to make them, and the command was told not to wait.
    """
    wanted, key = find(), deployer_key()
    if not wanted.calls:
        return
    if key is not None and address_of(key) == wanted.owner:
        _send(task, chain, key, wanted)
    else:
        show_owner_calls(
            wanted.calls, owner=wanted.owner, chain=chain.served.chain, made_by=made_by, tell=task.tell, show=task.show
        )
    task.wait(lambda: _missing(find()))


def _send(task: Task, chain: EvmChain, key: bytes, wanted: WantedCalls) -> None:
    sender = Sender(chain, key, task.tell)
    sender.check_chain()
    task.confirm(f"{sender.address}, the owner of {chain.served.escrow}, makes {len(wanted.calls)} calls.")
    for call in wanted.calls:
        task.tell(call.text)
        sender.send(bytes.fromhex(call.to.removeprefix("0x")), call.data, sender.next_nonce())


def _missing(wanted: WantedCalls) -> str:
    left = wanted.calls
    return f"the escrow's owner has still to call {len(left)}, {left[0].text} first." if left else ""
