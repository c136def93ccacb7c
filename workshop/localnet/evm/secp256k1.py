"""What checks and makes the signatures of transactions, in a hundredth of the time that pure Python takes."""

from btclib_libsecp256k1 import keys, recovery
from eth_keys.backends.native.main import NativeECCBackend
from eth_keys.datatypes import PrivateKey, PublicKey, Signature
from eth_keys.exceptions import BadSignature


class Libsecp256k1(NativeECCBackend):
    """A backend of eth_keys. What has no name here is done in Python."""

    def ecdsa_sign(self, msg_hash: bytes, private_key: PrivateKey) -> Signature:
        signature, parity = recovery.sign(msg_hash, private_key.to_bytes())
        return Signature(signature + bytes([parity]), backend=self)

    def ecdsa_recover(self, msg_hash: bytes, signature: Signature) -> PublicKey:
        numbers = signature.to_bytes()
        try:
            point = recovery.recover(msg_hash, numbers[:64], numbers[64], compressed=False)
        except ValueError as error:
            raise BadSignature(str(error)) from error
        return PublicKey(point[1:], backend=self)

    def private_key_to_public_key(self, private_key: PrivateKey) -> PublicKey:
        return PublicKey(keys.pubkey_from_prvkey(private_key.to_bytes(), compressed=False)[1:], backend=self)
