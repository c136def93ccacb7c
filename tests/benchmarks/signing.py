"""`make bench-sign`: what it costs to co-sign and sign one payment, on a Solana chain beside an EVM chain.

This is `prepare` alone, as the money path calls it under the agent's lock: no node and no database are asked. All take
turns in one process, so that the ratios mean something where the numbers alone do not. Where a payee was paid before,
the address of its token account is remembered; where it is new, that is derived.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from eth_utils.address import to_checksum_address
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from chains.catalogue import NATIVE_MINT, ServedChain, find_chain
from chains.evm.fees import FeeLimits
from chains.evm.preparing import EvmPreparer
from chains.port import Order, SignedTransaction, Submitter, TransactionPlan
from chains.solana.derivation import TOKEN_2022_PROGRAM, TOKEN_PROGRAM, EscrowSigners
from chains.solana.preparing import SolanaPreparer
from foundation.kernel.assets import Asset
from foundation.kernel.ids import new_id
from policy.signer import LocalSigner

_SEED = b"\x01" * 64
_NOW = datetime(2026, 5, 14, 18, 42, 11, tzinfo=UTC)
_SIGNER = LocalSigner(b"\x02" * 32, b"\x03" * 32, b"\x04" * 32)
_MICROSECONDS = 1_000_000
_MAX_FEE_WEI = 10**12

Sign = Callable[[Asset, str], SignedTransaction]


@dataclass(frozen=True)
class Case:
    """A kind of payment that is signed; `new_payee` makes an address, the payee of each payment or of all."""

    name: str
    asset: Asset
    sign: Sign
    new_payee: Callable[[], str]
    is_payee_new: bool = False


def main() -> None:
    """Read how often to measure, and print what one payment takes and how that compares with the EVM."""
    parser = argparse.ArgumentParser(prog="make bench-sign", description=__doc__)
    parser.add_argument("--payments", type=int, default=500, help="Payments of one measurement (default: 500).")
    parser.add_argument("--rounds", type=int, default=15, help="Turns that each kind has (default: 15).")
    options = parser.parse_args()
    cases = _cases()
    times_us: dict[str, list[float]] = {case.name: [] for case in cases}
    for number in range(options.rounds + 1):
        for case in cases:
            measured = _measure(case, options.payments)
            if number:  # the first turn only fills the caches
                times_us[case.name].append(measured)
    # What else runs on the machine only ever adds to a measurement.
    beside = min(times_us[cases[0].name])
    print(f"{'':<40}{'least µs':>8}  {'median':>6}  {'most':>6}  {'of EVM':>6}")
    for name, measured_us in times_us.items():
        least = min(measured_us)
        print(f"{name:<40}{least:>8.0f}  {statistics.median(measured_us):>6.0f}", end="")
        print(f"  {max(measured_us):>6.0f}  {least / beside:>6.2f}")


def _cases() -> list[Case]:
    evm, solana = _evm(), _solana()
    return [
        Case("EVM, USDC", Asset.USDC, evm, _new_evm_address),
        Case("Solana, SOL", Asset.SOL, solana, _new_solana_address),
        Case("Solana, USDC (Token)", Asset.USDC, solana, _new_solana_address),
        Case("Solana, USDC (Token), new payee", Asset.USDC, solana, _new_solana_address, is_payee_new=True),
        Case("Solana, PYUSD (Token-2022)", Asset.PYUSD, solana, _new_solana_address),
        Case("Solana, PYUSD (Token-2022), new payee", Asset.PYUSD, solana, _new_solana_address, is_payee_new=True),
    ]


def _measure(case: Case, count: int) -> float:
    """Sign so many payments; returns µs of processor time for each: it waits for nothing."""
    payees = [case.new_payee() for _ in range(count)] if case.is_payee_new else [case.new_payee()] * count
    began = time.process_time()
    for payee in payees:
        case.sign(case.asset, payee)
    return _MICROSECONDS * (time.process_time() - began) / count


def _evm() -> Sign:
    served = _served("evm-localnet", _new_evm_address(), {Asset.USDC: _new_evm_address()})
    chain = EvmPreparer(served, _SEED, FeeLimits.of(served, _MAX_FEE_WEI), timedelta(minutes=15))
    state = {"configuration": chain.configuration, "maxFeePerGas": 2 * 10**9, "maxPriorityFeePerGas": 10**9}
    return _signing(chain, Submitter(0, chain.relayer_address(0), nonce=7), state)


def _solana() -> Sign:
    signers = EscrowSigners.of(_SEED, _SIGNER.solana_address, str(Keypair().pubkey()))
    escrow = signers.escrow(TOKEN_PROGRAM)
    programs = {Asset.SOL: TOKEN_PROGRAM, Asset.USDC: TOKEN_PROGRAM, Asset.PYUSD: TOKEN_2022_PROGRAM}
    tokens = {asset: NATIVE_MINT if asset is Asset.SOL else _new_solana_address() for asset in programs}
    chain = SolanaPreparer(_served("solana-localnet", str(escrow), tokens), _SEED, signers)
    state = {
        "configuration": chain.configuration,
        "slot": 1000,
        "blockhash": _new_solana_address(),
        "lastValidBlockHeight": 1150,
        "unitPriceMicroLamports": 1000,
        "rentExempt": {"account": 890_880, "token": 2_039_280},
        "tokens": {asset: {"program": str(program), "objection": None} for asset, program in programs.items()},
    }
    return _signing(chain, Submitter(0, str(signers.relayer), nonce=None), state)


def _signing(chain: EvmPreparer | SolanaPreparer, submitter: Submitter, state: Mapping[str, Any]) -> Sign:
    def sign(asset: Asset, payee: str) -> SignedTransaction:
        order = Order(chain.escrow_id(new_id("pay", _NOW), os.urandom(32)), asset, Decimal("1.25"), payee)
        return chain.prepare(TransactionPlan.of_one(order, submitter, state, _SIGNER), _NOW)

    return sign


def _served(alias: str, escrow: str, tokens: dict[Asset, str]) -> ServedChain:
    chain = find_chain(alias)
    assert chain is not None
    return ServedChain(chain, (), escrow, tokens)


def _new_evm_address() -> str:
    return str(to_checksum_address(os.urandom(20)))


def _new_solana_address() -> str:
    return str(Pubkey(os.urandom(32)))


if __name__ == "__main__":
    main()
