"""Deploy an escrow, and verify what was deployed."""

from collections.abc import Callable, Sequence

import rlp
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from chains.evm.adapter import EvmChain
from chains.evm.answers import Receipt
from chains.evm.configuration_check import Expected, Inspection, Roles
from chains.evm.contract_calls import encode_creation
from chains.evm.inspection import inspect
from chains.evm.owner_calls import OwnerCall
from chains.port import ChainUnavailable
from foundation.kernel.errors import OperationRefused
from owner.evm.sending import Sender, attempts

# The limit of the escrow's constructor.
MOST_RELAYERS = 64
_CREATION = b""


class Deployer:
    """The account that pays for a new escrow. `report` gets progress messages, never a secret.

    Every method raises `OperationRefused` with a reason, and `ChainUnavailable` if no node answers.
    """

    def __init__(self, chain: EvmChain, key: bytes, report: Callable[[str], None]) -> None:
        self._chain = chain
        self._sender = Sender(chain, key, report)
        self._report = report
        self.address = self._sender.address

    def check_chain(self) -> None:
        """Refuse to sign anything unless every node that answers belongs to the right chain."""
        self._sender.check_chain()

    def deploy(self, owner: str, roles: Roles) -> tuple[str, Receipt]:
        """Deploy an escrow and wait until it is in a block; returns its address and the receipt."""
        nonce = self._sender.next_nonce()
        escrow = _created_address(self.address, nonce)
        # The address is known before anything is sent: if this is interrupted, the escrow is found there.
        self._report(f"The escrow will be {escrow}.")
        creation = encode_creation(owner, roles.policy_signer, list(roles.relayers))
        return escrow, self._sender.send(_CREATION, creation, nonce)

    def verify(self, escrow: str, owner: str, roles: Roles) -> None:
        """Wait until a node confirms the escrow's roles: a node may be behind the one that gave the receipt."""
        expected = Expected(self._chain.served.chain.chain_id, escrow, {}, roles)
        for _ in attempts():
            found = inspect(self._chain.inspector.singles, expected)
            try:
                mismatches = found.find_mismatches()
            except ChainUnavailable as error:
                mismatches = [str(error)]
            if not mismatches and found.contracts is not None and found.contracts.owner == owner:
                return
            self._report(" ".join(mismatches) or "Its owner is another address.")
        raise OperationRefused(f"No node confirms that {escrow} is what was deployed: do not use it.")

    def call(self, calls: Sequence[OwnerCall]) -> None:
        """Make these calls, one after the other, if this account is the owner."""
        for call in calls:
            self._report(call.text)
            self._sender.send(bytes.fromhex(call.to.removeprefix("0x")), call.data, self._sender.next_nonce())

    def find_mismatches(self, escrow: str, roles: Roles) -> list[str]:
        """Find the mismatches that will forbid payments from this escrow once it is configured."""
        return self._inspect(escrow, roles).find_mismatches()

    def find_objections(self, escrow: str, roles: Roles) -> list[str]:
        """Find why assets will be out of service once this escrow is configured."""
        return self._inspect(escrow, roles).find_objections()

    def _inspect(self, escrow: str, roles: Roles) -> Inspection:
        served = self._chain.served
        expected = Expected(served.chain.chain_id, escrow, served.tokens, roles)
        return inspect(self._chain.inspector.singles, expected)


def _created_address(deployer: str, nonce: int) -> str:
    parts = [bytes.fromhex(deployer.removeprefix("0x")), nonce]
    return str(to_checksum_address(keccak(rlp.encode(parts))[-20:]))
