"""The command that measures gas."""

import pytest

from tests.benchmarks import gas
from tests.benchmarks.gas import GWEI, USD


def test_gas_and_its_price_are_shown_for_each_length_and_each_chain_with_real_money(capsys):
    gas.main(["--lengths", "1", "2", "--gwei", "base=0.5", "--usd", "ETH=2000"])

    table, prices = capsys.readouterr().out.split("In US cents")
    assert [line.split("|")[1].strip() for line in table.splitlines()[2:-1]] == ["1 (`pay`)", "2"]
    assert [prices.count(f"| {alias} |") for alias in GWEI] == [2] * len(GWEI)
    assert "| base | 0.5 | 8.90 |" in prices  # 89,000 gas for 0.5 gwei
    assert "one ETH for 2,000 USD" in prices


def test_each_chain_with_real_money_has_an_assumed_price_of_gas_and_of_its_coin():
    assert {(chain.alias in GWEI, chain.coin in USD) for chain in gas.served()} == {(True, True)}


@pytest.mark.parametrize("arguments", [["--gwei", "nowhere=1"], ["--gwei", "base=much"], ["--usd", "BTC=3"]])
def test_what_is_no_price_is_refused(capsys, arguments):
    with pytest.raises(SystemExit):
        gas.main(arguments)
    assert f"'{arguments[1]}'" in capsys.readouterr().err
