"""Whose the escrow is: what no release passes by, although payments go on. The rest: `tests/chains/adapter`."""

import pytest
from eth_utils.address import to_checksum_address

from chains.evm.configuration_check import ESCROW_DOMAIN, Contracts, Expected, Inspection, Roles

ESCROW, SIGNER, RELAYER, OWNER, OTHER = (to_checksum_address("0x" + two * 20) for two in ("e5", "51", "e1", "0a", "ab"))
ZERO = "0x" + "0" * 40


def inspection(owner: str, expected: str | None = None) -> Inspection:
    roles = Roles(SIGNER, (RELAYER,))
    contracts = Contracts(
        newest_block=9, has_escrow=True, domain=ESCROW_DOMAIN, policy_signer=SIGNER, owner=owner, is_paused=False,
        enabled_relayers=frozenset({RELAYER}), tokens=(),
    )  # fmt: skip
    return Inspection(Expected(1, ESCROW, {}, roles, owner=expected), (1,), contracts)


@pytest.mark.parametrize("expected", [None, OWNER])
def test_an_escrow_of_the_configured_owner_or_of_whomever_it_names_is_ours(expected: str | None) -> None:
    assert inspection(OWNER, expected).find_foreign() == []


@pytest.mark.parametrize(
    ("owner", "expected", "said"),
    [
        (OTHER, OWNER, f"The escrow's owner is {OTHER}, not {OWNER}."),
        (ZERO, None, "The escrow's owner is nobody"),
        (ZERO, OWNER, f"The escrow's owner is {ZERO}, not {OWNER}."),
        (RELAYER, None, f"The escrow's owner is {RELAYER}, a key of our processes"),
        (SIGNER, SIGNER, f"The escrow's owner is {SIGNER}, a key of our processes"),
    ],
)
def test_an_escrow_of_another_owner_of_nobody_or_of_a_process_is_released_by_nobody_and_pays_on(
    owner: str, expected: str | None, said: str
) -> None:
    found = inspection(owner, expected)

    (sentence,) = found.find_foreign()
    assert sentence.startswith(said)
    assert found.find_mismatches() == []
