"""What follows from an installation's variables: its public addresses, and what is still missing."""

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings

from chains.catalogue import Chain, Vm
from chains.evm.derivation import address_of, derive_account
from chains.solana.derivation import relayer_key
from foundation.environment.configuration import Configuration
from operators.setup.answers import OPTIONS
from operators.setup.variables import ASKED

_ADD = "python manage.py setup --add "


def public_addresses(values: Mapping[str, str], served: Sequence[Chain]) -> dict[str, Any]:
    """Derive what the keys are known by outside: addresses, and the receipt key in hex."""
    kinds = {chain.vm for chain in served}
    configuration = Configuration(variables=values)
    count: int = configuration.read("RELAYERS_PER_CHAIN", default=str(settings.RELAYERS_PER_CHAIN))
    seed = _bytes(values, "RELAYER_SEED")
    receipts = Ed25519PrivateKey.from_private_bytes(_bytes(values, "POLICY_SIGNER_ED25519_KEY"))
    found: dict[str, Any] = {"receiptKey": receipts.public_key().public_bytes_raw().hex()}
    if Vm.EVM in kinds:
        found["policySigner"] = address_of(_bytes(values, "POLICY_SIGNER_SECP256K1_KEY"))
        found["relayers"] = [derive_account(seed, number)[1] for number in range(count)]
    if Vm.SOLANA in kinds:
        found["solanaRelayer"] = str(relayer_key(seed, 0))
    return found


def find_missing(values: Mapping[str, str], served: Sequence[Chain]) -> dict[str, str]:
    """Name each variable that is still to be set, with the command that sets it or prints it."""
    missing = {
        one.name: f"{_ADD}--{OPTIONS[one.name].replace('_', '-')} {quote(one.example)}"
        for one in ASKED
        if one.name not in values
    }
    if not served:
        missing["CHAIN_<ALIAS>_RPC_URLS"] = f"{_ADD}--chain base-sepolia=https://…,https://…"
    return missing | dict(_escrows(values, served))


def _escrows(values: Mapping[str, str], served: Sequence[Chain]) -> Iterator[tuple[str, str]]:
    for chain in served:
        if f"{chain.variables}_ESCROW" not in values:
            command = f"python manage.py deploy_escrow {chain.alias} --owner ADDRESS"
            if chain.vm is Vm.EVM:
                command = f"DEPLOYER_KEY=… {command} --daily-cap USDC=1000"
            yield f"{chain.variables}_ESCROW", command


def _bytes(values: Mapping[str, str], name: str) -> bytes:
    return bytes.fromhex(values[name].removeprefix("0x"))
