"""A Solana chain to approve payees on, whatever else is served: what it says of them the test writes into a fake."""

import os
from typing import Any

import pytest
from django.conf import settings
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from chains.catalogue import ServedChain, find_chain
from foundation.kernel.assets import Asset
from services.models import Service
from tests.support.factories import make_service
from tests.support.fake_chain import FakeChain

DEVNET = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"
ESCROW = "4xXn6YqW4F9oQZb4Vt5mVtQFzkLhGx2mA8s7u5cN3dRe"


def serve_devnet(monkeypatch: pytest.MonkeyPatch, setting: Any, tokens: dict[Asset, str] | None = None) -> FakeChain:
    """Serve the devnet besides; returns the fake that is asked about its payees. `setting` is pytest's `settings`."""
    chain = find_chain(DEVNET)
    assert chain
    served = ServedChain(chain, ("http://127.0.0.1:9",), ESCROW, chain.tokens | (tokens or {}))
    setting.CHAINS = {**settings.CHAINS, DEVNET: served}
    fake = FakeChain(DEVNET, has_nonces=False)
    monkeypatch.setattr("services.vetting.served_chains", lambda: {DEVNET: fake})
    return fake


def make_payee(address: str | None = None, *, asset: Asset = Asset.SOL) -> Service:
    """Register a service on the devnet, by default at the address of a wallet that nobody has."""
    return make_service(recipient=f"solana-devnet:{address or new_wallet()}", asset=asset, approved=False)


def new_wallet() -> str:
    """Make the address of a key that nobody has any more."""
    return str(Keypair().pubkey())


def new_vault() -> str:
    """Make an address that only a program can sign for."""
    return str(Pubkey.find_program_address([os.urandom(32)], Pubkey.default())[0])
