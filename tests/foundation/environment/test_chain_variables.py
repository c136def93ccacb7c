"""The variables of a chain, and which chains are served together."""

import os
from decimal import Decimal

import pytest
from eth_utils.address import to_checksum_address

from chains.chain_settings import read_chains
from foundation.environment.configuration import Configuration
from foundation.environment.missing_escrows import leave_out_missing_escrows
from tests.support.configurations import GOOD, SOLANA, check


# --- Chains -----------------------------------------------------------------------------------------------------------
def read_base(monkeypatch, **variables):
    """Read the chain Base from an environment of these variables beside the good ones."""
    for name in [name for name in os.environ if name.startswith("CHAIN_")]:
        monkeypatch.delenv(name)
    for name, value in {**GOOD, **variables}.items():
        monkeypatch.setenv(name, value)
    configuration = Configuration()
    return read_chains(configuration)["eip155:8453"], configuration.problems


def test_a_chain_is_final_by_its_tag_and_may_have_deposits_since_its_first_block_unless_told_otherwise(monkeypatch):
    served, problems = read_base(monkeypatch)
    assert (served.finality_depth, served.first_block, problems) == (None, 0, [])


def test_finality_depth_and_first_block_are_read_per_chain(monkeypatch):
    served, problems = read_base(monkeypatch, CHAIN_BASE_FINALITY_DEPTH="12", CHAIN_BASE_FIRST_BLOCK="0")
    assert (served.finality_depth, served.first_block, problems) == (12, 0, [])

    served, problems = read_base(monkeypatch, CHAIN_BASE_FIRST_BLOCK="31000000")
    assert (served.first_block, problems) == (31_000_000, [])


def test_the_highest_tip_is_the_chains_own_unless_told_otherwise(monkeypatch):
    served, problems = read_base(monkeypatch)
    assert (served.max_tip_gwei, problems) == (None, [])

    served, problems = read_base(monkeypatch, CHAIN_BASE_MAX_TIP_GWEI="0.25")
    assert (served.max_tip_gwei, problems) == (Decimal("0.25"), [])


def test_an_asset_without_an_address_is_left_out_and_its_token_stays_known(monkeypatch):
    served, problems = read_base(monkeypatch)
    assert (served.left_out, problems) == (frozenset(), [])

    less, problems = read_base(monkeypatch, CHAIN_BASE_TOKENS="EURC=")
    assert (less.left_out, less.tokens, problems) == ({"EURC"}, served.tokens, [])

    address = "0x1111111111111111111111111111111111111111"
    other, problems = read_base(monkeypatch, CHAIN_BASE_TOKENS=f"USDT={address},USDT=,USDC=")
    assert (other.left_out, other.tokens["USDT"], problems) == ({"USDT", "USDC"}, address, [])


def test_only_the_missing_escrow_is_no_problem_for_whoever_deploys_one(monkeypatch):
    _, problems = read_base(
        monkeypatch,
        CHAIN_BASE_ESCROW="",
        CHAIN_POLYGON_RPC_URLS="https://node.example",
        CHAIN_ETHEREUM_RPC_URLS="https://node.example",
        CHAIN_ETHEREUM_ESCROW="0x1",
        CHAIN_SOLANA_RPC_URLS="https://node.example",
    )
    assert len(problems) == 6
    assert "manage.py deploy_escrow base " in " ".join(problems)

    left = leave_out_missing_escrows([*problems, "DATABASE_URL is not set."])

    assert [problem.split()[0] for problem in left] == ["CHAIN_ETHEREUM_ESCROW", "DATABASE_URL"]


def test_the_owner_of_an_escrow_must_be_set_on_solana_and_may_be_elsewhere(monkeypatch):
    served, problems = read_base(monkeypatch)
    assert (served.owner, problems) == (None, [])

    served, problems = read_base(monkeypatch, CHAIN_BASE_OWNER="0x" + "ab" * 20)
    assert (served.owner, problems) == (to_checksum_address("0x" + "ab" * 20), [])
    _, problems = read_base(monkeypatch, CHAIN_BASE_OWNER="0x" + "0" * 40)
    assert problems == ["CHAIN_BASE_OWNER holds the zero address, which is nobody's."]
    assert leave_out_missing_escrows(problems) == problems

    for name, value in {**GOOD, **SOLANA, "CHAIN_BASE_OWNER": ""}.items():
        monkeypatch.setenv(name, value)
    configuration = Configuration()
    solana = read_chains(configuration)["solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"]
    assert (solana.owner, configuration.problems) == (SOLANA["CHAIN_SOLANA_OWNER"], [])


# --- Money that is worth nothing --------------------------------------------------------------------------------------
def problems_of(*chains):
    """Serve chains, by the names in their variables, and tell what is wrong with that."""
    with pytest.MonkeyPatch.context() as environment:
        for name in [name for name in os.environ if name.startswith("CHAIN_")]:
            environment.delenv(name)
        environment.setenv("POLICY_SIGNER_SOLANA_KEY", SOLANA["POLICY_SIGNER_SOLANA_KEY"])
        for chain in chains:
            environment.setenv(f"CHAIN_{chain}_RPC_URLS", "https://node.example")
        for chain in chains:
            is_solana = chain.startswith("SOLANA")
            environment.setenv(
                f"CHAIN_{chain}_ESCROW", SOLANA["CHAIN_SOLANA_ESCROW"] if is_solana else "0x" + "ab" * 20
            )
            if is_solana:
                environment.setenv(f"CHAIN_{chain}_OWNER", SOLANA["CHAIN_SOLANA_OWNER"])
            environment.setenv(f"CHAIN_{chain}_FIRST_BLOCK", "1")
        configuration = Configuration()
        read_chains(configuration)
    return configuration.problems


@pytest.mark.parametrize(
    "chains",
    [
        ("BASE", "ETHEREUM", "SOLANA"),
        ("BASE_SEPOLIA", "SOLANA_DEVNET", "SOLANA_TESTNET"),
        ("BASE_SEPOLIA", "EVM_LOCALNET", "SOLANA_LOCALNET"),
    ],
)
def test_chains_whose_money_is_worth_something_are_served_together_and_so_are_those_where_it_is_not(chains):
    assert problems_of(*chains) == []


@pytest.mark.parametrize(
    "chains",
    [
        ("BASE", "BASE_SEPOLIA"),
        ("SOLANA", "SOLANA_DEVNET"),
        ("SOLANA", "SOLANA_TESTNET"),
        ("BASE", "SOLANA_DEVNET"),
        ("POLYGON", "EVM_LOCALNET"),
        ("SOLANA", "SOLANA_LOCALNET"),
    ],
)
def test_a_test_network_is_not_served_beside_a_chain_whose_money_is_worth_something(chains):
    (problem,) = problems_of(*chains)

    main, test = (f"CHAIN_{chain}_RPC_URLS" for chain in chains)
    assert problem.startswith(f"{main} must not be set together with {test}, of test networks: ")


def test_the_embedded_chains_are_not_served_beside_one_whose_money_is_worth_something(tmp_path):
    embedded = {"EMBEDDED": "true", "EMBEDDED_DIR": str(tmp_path)}

    done = check({**GOOD, **embedded})

    assert done.returncode == 1
    assert "CHAIN_BASE_RPC_URLS must not be set together with CHAIN_EVM_LOCALNET_RPC_URLS, CHAIN_SOLANA" in done.stderr
    assert "Traceback" not in done.stderr
