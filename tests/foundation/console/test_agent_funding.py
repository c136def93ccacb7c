"""The page that says how to fund an agent: where, with which id, and what a wallet scans."""

import re
from decimal import Decimal
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from django.conf import settings

from chains.catalogue import NATIVE_MINT, Vm
from chains.solana.adapter import SolanaChain
from foundation.kernel.assets import Asset
from payments.admin.agents.ways_in import find_ways_in
from payments.models import ChainState
from services.served_chains import served_chains
from tests.foundation.console.conftest import Person
from tests.support.deposits import make_deposit_aside
from tests.support.factories import make_agent
from tests.support.local_ids import LOCALNET

FUND = "policy_agent_fund"


def way_of(agent_id, asset, vm, amount=None):
    (way,) = (one for one in find_ways_in(agent_id, asset, amount) if one.chain.vm is vm)
    return way


def solana_of(asset):
    """Give the Solana chain and what the watcher saw of an asset's mint there: its program."""
    caip2, adapter = next((name, one) for name, one in served_chains().items() if isinstance(one, SolanaChain))
    return adapter, ChainState.objects.get(pk=caip2).state["tokens"][asset.value]["program"]


def test_the_page_names_the_agent_the_escrow_and_what_to_do(auditor: Person):
    agent = make_agent()

    page = auditor.get(FUND, agent.id).content.decode()

    served = settings.CHAINS[LOCALNET]
    assert agent.id in page
    assert served.escrow in page
    assert served.tokens[Asset.USDC] in page
    assert "<svg" in page
    assert " style=" not in page


@pytest.mark.django_db
def test_an_evm_wallet_is_asked_to_approve_and_to_call_the_escrow_for_the_agent():
    agent_id = "team/agent 7&amount=1?#%é"

    approve, deposit = way_of(agent_id, Asset.USDC, Vm.EVM, Decimal(2)).codes

    served = settings.CHAINS[LOCALNET]
    scheme, _, path, query, _ = urlsplit(approve.uri)
    assert (scheme, path) == ("ethereum", f"{served.tokens[Asset.USDC]}@{served.chain.chain_id}/approve")
    assert parse_qs(query) == {"address": [served.escrow], "uint256": ["2000000"]}
    scheme, _, path, query, fragment = urlsplit(deposit.uri)
    assert (scheme, path, fragment) == ("ethereum", f"{served.escrow}@{served.chain.chain_id}/deposit", "")
    assert parse_qs(query) == {"string": [agent_id], "address": [served.tokens[Asset.USDC]], "uint256": ["2000000"]}


@pytest.mark.django_db
def test_a_solana_wallet_is_asked_for_a_transfer_with_the_agent_as_its_memo():
    chain, program = solana_of(Asset.USDC)
    way = way_of("agent 7&memo=x", Asset.USDC, Vm.SOLANA)

    (code,) = way.codes
    scheme, _, owner, query, _ = urlsplit(code.uri)
    asked = parse_qs(query)
    mint = chain.served.tokens[Asset.USDC]
    assert (scheme, asked["memo"], asked["spl-token"]) == ("solana", ["agent 7&memo=x"], [mint])
    # Wallets derive the account from its owner: it has to be the escrow's.
    assert (owner, way.account) == chain.signers.owner_and_account(mint, program)


@pytest.mark.django_db
def test_sol_goes_to_the_escrows_account_for_it_and_never_to_its_owner():
    way = way_of("agent-7", Asset.SOL, Vm.SOLANA)
    chain, _ = solana_of(Asset.SOL)

    to = urlsplit(way.codes[0].uri).path

    account = chain.escrow.find_accounts()[Asset.SOL]
    assert (account.mint, to) == (NATIVE_MINT, account.address)
    assert "spl-token" not in way.codes[0].uri


@pytest.mark.django_db
def test_a_chain_that_was_not_observed_yet_has_no_code():
    ChainState.objects.all().delete()

    way = way_of("agent-7", Asset.USDC, Vm.SOLANA)

    assert (way.account, way.codes) == ("", [])


def test_the_codes_hold_the_amount(auditor, agent):
    page = unquote(auditor.get(FUND, agent.id, amount="1234.5").content.decode())
    assert "uint256=1234500000" in page
    assert "amount=1234.50" in page
    # What a wallet will be asked for stands under each code, as people read it.
    assert page.count("<strong>1,234.50 USDC</strong>") == page.count("<svg")
    assert "the wallet asks for the amount" in auditor.get(FUND, agent.id).content.decode()
    assert "errorlist" in auditor.get(FUND, agent.id, amount="many").content.decode()


def test_deposits_that_name_the_agent_and_wait_are_shown_and_the_last_ones(finance, auditor, agent):
    credited, waiting = make_deposit_aside(agent.id.upper(), "7"), make_deposit_aside(agent.id.upper(), "8")
    finance.carry_out("payments_deposit", "credit", str(credited.pk), agent=agent.id)

    page = auditor.get(FUND, agent.id).content.decode()

    waits, came = page.split("Last deposits")
    assert "8.00 USDC" in waits
    assert waiting.note in waits
    assert credited.tx in came
    assert re.search(r"7\.00 USDC", came)


def test_who_may_not_see_agents_does_not_see_how_to_fund_one(make_person, agent):
    assert make_person().get(FUND, agent.id).status_code == 403
