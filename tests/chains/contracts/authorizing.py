"""A token that moves what the escrow has authorized, and those who sign for the escrow."""

from dataclasses import dataclass, replace
from typing import Any, Self

from eth_abi.abi import encode
from eth_account.messages import encode_typed_data
from eth_utils.crypto import keccak

from tests.chains.contracts.typed_data import AUTHORIZATION_TYPE, payment_id
from tests.chains.contracts.world import NOON, World

MOST = 1_000_000
RESERVE = 50_000_000
LONGEST = 3_600
MAGIC = bytes.fromhex("1626ba7e")
INVALID_SIGNATURE = keccak(text="ERC3009InvalidSignature()")[:4].hex()
_WORDS = ["address", "address", "uint256", "uint256", "uint256", "bytes32"]


@dataclass(frozen=True)
class Authorization:
    """What both keys sign; its nonce is a payment's id."""

    token: str
    sender: str
    to: str
    value: int = 250_000
    valid_after: int = 0
    valid_before: int = NOON + 1_800
    nonce: bytes = payment_id(1)

    def changed(self, **changes: Any) -> Self:
        return replace(self, **changes)


class Authorizing:
    """The world with a token that knows authorizations; the owner lets it take money out of the escrow."""

    def __init__(self, world: World, token: Any) -> None:
        self.world, self.token = world, token
        self.limit(MOST, RESERVE)

    def limit(self, most: int, reserve: int = 0) -> Any:
        set_limits = self.world.escrow.functions.setAuthorizationLimits
        return self.world.send(set_limits(self.token.address, most, reserve), self.world.owner)

    def authorization(self, **changes: Any) -> Authorization:
        here = Authorization(self.token.address, self.world.escrow.address, self.world.recipient.address)
        return here.changed(**changes)

    def message(self, one: Authorization, primary: str = "TransferWithAuthorization", **domain: Any) -> Any:
        values = dict(
            zip(
                ("from", "to", "value", "validAfter", "validBefore", "nonce"),
                (one.sender, one.to, one.value, one.valid_after, one.valid_before, one.nonce),
                strict=True,
            )
        )
        own = {"name": "USD Coin", "version": "2", "chainId": self.world.w3.eth.chain_id}
        types = {primary: AUTHORIZATION_TYPE["TransferWithAuthorization"]}
        return encode_typed_data(own | {"verifyingContract": one.token} | domain, types, values)

    def digest(self, one: Authorization, primary: str = "TransferWithAuthorization", **domain: Any) -> bytes:
        said = self.message(one, primary, **domain)
        return keccak(b"\x19" + said.version + said.header + said.body)

    def sign(self, one: Authorization, *, relayer: Any = None, signer: Any = None, message: Any = None) -> bytes:
        """Sign with both keys, as the escrow wants it: the words, the relayer's signature, the policy signer's."""
        message = message or self.message(one)
        by_relayer = (relayer or self.world.relayer).sign_message(message).signature
        by_signer = (signer or self.world.signer).sign_message(message).signature
        return bytes(self.words(one) + by_relayer + by_signer)

    def words(self, one: Authorization) -> bytes:
        values = [one.token, one.to, one.value, one.valid_after, one.valid_before, one.nonce]
        return encode(_WORDS, values)

    def answer(self, one: Authorization, signature: bytes | None = None, digest: bytes | None = None) -> bytes:
        """Ask the escrow as the token does; raises where it refuses."""
        signature = self.sign(one) if signature is None else signature
        digest = self.digest(one) if digest is None else digest
        return bytes(self.world.escrow.functions.isValidSignature(digest, signature).call())

    def transfer(self, one: Authorization, signature: bytes | None = None, method: str = "transfer") -> Any:
        """Return the call of the token that anybody may submit."""
        signature = self.sign(one) if signature is None else signature
        arguments = (one.sender, one.to, one.value, one.valid_after, one.valid_before, one.nonce, signature)
        name = f"{method}WithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)"
        return self.token.get_function_by_signature(name)(*arguments)

    def assert_refused(self, one: Authorization, reason: str, signature: bytes | None = None) -> None:
        """Check that the escrow refuses for this reason, and that the token then moves nothing."""
        signature = self.sign(one) if signature is None else signature
        question = self.world.escrow.functions.isValidSignature(self.digest(one), signature)
        assert self.world.refusal(question) == reason
        self.world.assert_refused(self.transfer(one, signature), self.world.stranger, INVALID_SIGNATURE)

    def is_used(self, one: Authorization) -> Any:
        return self.token.functions.authorizationState(one.sender, one.nonce).call()
