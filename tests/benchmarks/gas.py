"""`python -m tests.benchmarks.gas`: what gas a payment on an EVM chain uses, alone and in lists, and what that costs.

The chain is the one of the contract tests, in this process. A payee is known if it holds something of the token. The
token is that of the tests: USDC, which calls through a proxy and asks whether a payee is blocked, uses more. What
rollups charge for data is not included. Prints Markdown for docs/operate/figures.md.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from itertools import count

from eth_utils.address import to_checksum_address

from chains.catalogue import CHAINS, Chain, Vm
from tests.chains.contracts.typed_data import Payment
from tests.chains.contracts.world import FUNDS, World

# Assumptions and not quotations; --gwei and --usd replace them.
ASSUMED_ON = date(2026, 11, 26)
GWEI = {
    "ethereum": Decimal(1),
    "base": Decimal("0.01"),
    "polygon": Decimal(50),
    "arbitrum": Decimal("0.01"),
    "optimism": Decimal("0.01"),
    "avalanche": Decimal(1),
}
USD = {"ETH": Decimal(3000), "POL": Decimal("0.20"), "AVAX": Decimal(20)}
LENGTHS = (1, 2, 4, 8, 16, 32)
_GWEI_PER_COIN = 10**9
_CENTS = 100


def main(arguments: Sequence[str]) -> None:
    """Read the prices, measure, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.gas", description=__doc__)
    parser.add_argument(
        "--gwei", nargs="+", default=[], metavar="CHAIN=GWEI", help=f"Price of gas (default: {_show(GWEI)})."
    )
    parser.add_argument(
        "--usd", nargs="+", default=[], metavar="COIN=USD", help=f"Price of a coin (default: {_show(USD)})."
    )
    parser.add_argument("--lengths", nargs="+", type=int, default=LENGTHS, help="Payments in one call.")
    options = parser.parse_args(arguments)
    try:
        gwei, usd = _read_prices(GWEI, options.gwei), _read_prices(USD, options.usd)
    except ValueError as error:
        parser.error(str(error))
    bench = Bench()
    known, new = ({length: bench.measure(length, is_known=it) for length in options.lengths} for it in (True, False))
    print("\n".join([*_gas_table(known, new), "", *_price_tables(known, new, gwei, usd)]))


class Bench:
    """An escrow that pays to one payee after the other."""

    def __init__(self) -> None:
        self._world, self._numbers = World(), count()
        token = self._world.token.address
        self._world.send(self._world.escrow.functions.setDailyCap(token, FUNDS), self._world.owner)
        self.measure(1, is_known=True)  # the first payment of a day also pays for the place of its count

    def measure(self, length: int, *, is_known: bool) -> int:
        """Pay so many in one call, one by `pay`; returns the gas of each, rounded."""
        payments = [self._payment(is_known=is_known) for _ in range(length)]
        call = self._world.pay(payments[0]) if length == 1 else self._world.pay_many(payments)
        receipt = self._world.send(call, self._world.relayer)
        assert len(self._world.paid(receipt)) == length
        return round(int(receipt.gasUsed) / length)

    def _payment(self, *, is_known: bool) -> Payment:
        # Random bytes, as real ids and addresses are: zeros would be cheaper.
        drawn = sha256(next(self._numbers).to_bytes(8)).digest()
        payee = to_checksum_address(drawn[:20])
        if is_known:
            self._world.send(self._world.token.functions.mint(payee, 1), self._world.deployer)
        return replace(self._world.payment(), id=sha256(drawn).digest(), recipient=payee)


def _gas_table(known: Mapping[int, int], new: Mapping[int, int]) -> Iterator[str]:
    yield "| Payments in one call | Gas of each, payee known | Gas of each, payee new |"
    yield "|---:|---:|---:|"
    for length in known:
        yield f"| {_name(length)} | {known[length]:,} | {new[length]:,} |"


def _price_tables(
    known: Mapping[int, int], new: Mapping[int, int], gwei: Mapping[str, Decimal], usd: Mapping[str, Decimal]
) -> Iterator[str]:
    prices = ", ".join(f"one {coin} for {price:,} USD" for coin, price in usd.items())
    yield "In US cents for each payment, without what rollups charge for data."
    yield f"Prices are assumed ({ASSUMED_ON}): {prices}."
    for whose, gas in (("known", known), ("new", new)):
        yield ""
        yield f"| Payee {whose} | Gwei | {' | '.join(map(_name, gas))} |"
        yield f"|---|---:|{'---:|' * len(gas)}"
        for chain in served():
            price = gwei[chain.alias] * usd[chain.coin] * _CENTS / _GWEI_PER_COIN
            yield f"| {chain.alias} | {gwei[chain.alias]} | {' | '.join(_cents(one * price) for one in gas.values())} |"


def served() -> list[Chain]:
    return [chain for chain in CHAINS if chain.vm is Vm.EVM and not chain.is_test]


def _name(length: int) -> str:
    return "1 (`pay`)" if length == 1 else str(length)


def _cents(value: Decimal) -> str:
    """Show hundredths; of less than a cent, two digits that mean something."""
    return f"{value:.2f}" if value >= 1 else f"{value:.2g}"


def _show(prices: Mapping[str, Decimal]) -> str:
    return " ".join(f"{name}={price}" for name, price in prices.items())


def _read_prices(assumed: Mapping[str, Decimal], given: Sequence[str]) -> dict[str, Decimal]:
    """Replace some of the assumed prices by `NAME=PRICE`. Raises `ValueError` for another name, and for no number."""
    prices = dict(assumed)
    for one in given:
        name, _, price = one.partition("=")
        if name not in prices:
            raise ValueError(f"'{one}': the name is none of {', '.join(prices)}")
        try:
            prices[name] = Decimal(price)
        except InvalidOperation:
            raise ValueError(f"'{one}': the price is no number") from None
    return prices


if __name__ == "__main__":
    main(sys.argv[1:])
