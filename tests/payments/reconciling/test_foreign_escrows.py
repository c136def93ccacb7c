"""Nothing is searched, stored or released for an escrow that is not ours: real contracts on the local chains."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from eth_utils.address import to_checksum_address

from chains.port import ChainUnavailable
from foundation.kernel.assets import Asset
from foundation.kernel.secrecy import Secret
from foundation.kernel.times import utc_now
from payments.models import ChainState, DepositCursor
from payments.reconciling.escrow_history import search_history
from payments.tasks import observe_chain
from services.served_chains import make_chain, served_chains
from tests.support.commands import run
from tests.support.fake_chain import make_fake_chain
from tests.support.local_ids import LOCALNET

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_adapters_of_its_own")]

FAR = 99_999_999
NOBODY = to_checksum_address("0x" + "ab" * 20)


@pytest.fixture
def _adapters_of_its_own():
    """Make the adapters of other settings anew, and those of the real ones afterwards."""
    served_chains.cache_clear()
    yield
    served_chains.cache_clear()


def cursors() -> list[Mapping[str, Any]]:
    return list(DepositCursor.objects.order_by("chain").values())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda _served: {"escrow": NOBODY}, "There is no escrow at"),
        (lambda served: {"escrow": served.tokens[Asset.USDC]}, "There is no escrow at"),
        (lambda _served: {"first_block": FAR}, f"The escrow's first block is said to be {FAR}"),
        (lambda _served: {"owner": NOBODY}, f"The escrow's owner is 0x.*, not {NOBODY}"),
    ],
    ids=["an address without code", "another contract", "a first block in the future", "another owner"],
)
def test_a_release_with_another_escrow_fails_and_searches_nothing(settings, change, said):
    served = settings.CHAINS[LOCALNET]
    settings.CHAINS = {LOCALNET: replace(served, **change(served))}
    before = cursors()

    with pytest.raises(CommandError, match=said):
        call_command("catch_up", chain=LOCALNET)

    assert cursors() == before


def test_a_release_with_another_policy_signer_fails_and_searches_nothing(settings):
    settings.CHAINS = {LOCALNET: settings.CHAINS[LOCALNET]}
    settings.POLICY_SIGNER_SECP256K1_KEY = Secret(bytes([7]) * 32)
    before = cursors()

    with pytest.raises(CommandError, match="The escrow's policy signer is 0x"):
        call_command("catch_up", chain=LOCALNET)

    assert cursors() == before


def test_a_worker_searches_no_escrow_that_is_not_ours(settings):
    settings.CHAINS = {LOCALNET: replace(settings.CHAINS[LOCALNET], escrow=NOBODY)}
    before = cursors()

    with pytest.raises(ChainUnavailable, match="Nothing is searched there: There is no escrow at"):
        search_history(LOCALNET, make_chain(LOCALNET))

    assert cursors() == before


def test_why_an_escrow_is_not_searched_is_known_to_staff(monkeypatch):
    chain = make_fake_chain()
    DepositCursor.objects.filter(chain=chain.name).delete()
    chain.foreign = chain.mismatches = ["There is no escrow at 0x1."]
    monkeypatch.setattr("payments.tasks.served_chains", lambda: {chain.name: chain})

    observe_chain(chain.name)

    assert ChainState.objects.get(chain=chain.name).mismatch == "There is no escrow at 0x1."
    assert not DepositCursor.objects.filter(chain=chain.name).exists()


@pytest.mark.parametrize("was_searched", [True, False])
def test_a_release_while_nodes_are_away_passes_only_where_the_escrow_was_seen_before(settings, was_searched):
    settings.CHAINS = {LOCALNET: replace(settings.CHAINS[LOCALNET], rpc_urls=("http://127.0.0.1:9",))}
    DepositCursor.objects.filter(chain=LOCALNET).delete()
    if was_searched:
        escrow = settings.CHAINS[LOCALNET].escrow
        DepositCursor.objects.create(chain=LOCALNET, escrow=escrow, block_number=7, moved_at=utc_now())

    _, error = run("catch_up", "--chain", LOCALNET)

    said = f"Nobody has seen yet whether the escrow is ours on {LOCALNET}, and its nodes do not answer now"
    assert (error is None) == was_searched
    assert was_searched or said in error
    assert DepositCursor.objects.filter(chain=LOCALNET).exists() == was_searched
