"""Creating an escrow on a Solana chain: what is made is what payments are made from, and nothing is made twice."""

import base64
from dataclasses import replace
from itertools import cycle

import pytest
from django.conf import settings
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from spl.token.constants import TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID

from chains.port import ChainUnavailable
from chains.rpc.node import Identity
from chains.rpc.nodes import Nodes
from chains.solana.derivation import NATIVE_MINT, EscrowSigners, associated_account
from foundation.environment.keys import held_key
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from owner.solana.deployment import Deployer
from tests.support.embedded_nodes import AWAY, known
from workshop.localnet import rpc
from workshop.localnet.folder import open_folder
from workshop.localnet.solana import GENESIS_HASH

SYSTEM = "11111111111111111111111111111111"
SOL = 10**9
TOKEN_ACCOUNT = 165


def served(**changes):
    return replace(settings.CHAINS[known("solana-localnet").caip2], **changes)


def ask(method, *params):
    return rpc.request(served().rpc_urls[0], method, *params)


def put(address, lamports, data=b"", owner=SYSTEM):
    """Set an account, at every commitment."""
    encoded = [base64.b64encode(data).decode(), "base64"]
    ask("dev_setAccount", str(address), {"lamports": lamports, "owner": str(owner), "data": encoded})


def look(address):
    """Give an account's data and owner; None if there is none."""
    account = ask("getAccountInfo", str(address), {"encoding": "base64", "commitment": "confirmed"})["value"]
    return account and (base64.b64decode(account["data"][0]), account["owner"])


class Installation:
    """Keys of their own on the real chain; the relayer has SOL."""

    def __init__(self, lamports=SOL):
        self.relayer = Keypair()
        self.signers = EscrowSigners(self.relayer.pubkey(), Keypair().pubkey(), Keypair().pubkey())
        self.told = []
        put(self.relayer.pubkey(), lamports)

    def deployer(self, chain=None, genesis_hash=GENESIS_HASH):
        chain = chain or served()
        nodes = Nodes(chain.rpc_urls, Identity("getGenesisHash", genesis_hash))
        return Deployer(chain, nodes, self.relayer, self.signers, self.told.append)

    def escrow(self, program):
        return self.signers.escrow(program)

    def lamports(self):
        return ask("getBalance", str(self.relayer.pubkey()), {"commitment": "confirmed"})["value"]

    def refusal(self, **options):
        with pytest.raises(OperationRefused) as raised:
            self.deployer(**options).deploy()
        return str(raised.value)


def escrow_accounts(installation):
    """List where the escrow holds each asset of the chain, with the mint, its program, and the escrow there."""
    for asset, mint in served().tokens.items():
        program = TOKEN_2022_PROGRAM_ID if asset is Asset.PYUSD else TOKEN_PROGRAM_ID
        escrow = installation.escrow(program)
        yield associated_account(escrow, Pubkey.from_string(mint), program), mint, program, escrow


@pytest.fixture
def installation():
    return Installation()


@pytest.mark.parametrize("is_prefunded", [False, True])
def test_both_multisigs_and_an_account_of_each_asset_are_created(installation, is_prefunded):
    if is_prefunded:
        put(installation.escrow(TOKEN_PROGRAM_ID), SOL)
        put(installation.escrow(TOKEN_2022_PROGRAM_ID), 1_000_000)

    deployment = installation.deployer().deploy()

    assert deployment.escrow == str(installation.escrow(TOKEN_PROGRAM_ID))
    for program in (TOKEN_PROGRAM_ID, TOKEN_2022_PROGRAM_ID):
        assert look(installation.escrow(program)) == (installation.signers.multisig_data, str(program))
    for address, mint, program, escrow in escrow_accounts(installation):
        data, owner = look(address)
        assert owner == str(program)
        assert data[:64] == bytes(Pubkey.from_string(mint)) + bytes(escrow)
    assert deployment.tx in "".join(installation.told)
    found = ask("getSignatureStatuses", [deployment.tx])["value"][0]
    assert found["err"] is None
    assert deployment.slot <= found["slot"]


def test_an_account_is_created_where_somebody_has_sent_lamports_to_its_address(installation):
    # Too little for an account of a token, as much as one of nothing takes, and more than enough.
    for (address, *_), lamports in zip(escrow_accounts(installation), cycle([1, 890_880, SOL]), strict=False):
        put(address, lamports)

    deployment = installation.deployer().deploy()

    assert deployment.tx
    for address, mint, program, escrow in escrow_accounts(installation):
        data, owner = look(address)
        assert owner == str(program)
        assert data[:64] == bytes(Pubkey.from_string(mint)) + bytes(escrow)
    assert installation.deployer().deploy().tx == ""


@pytest.mark.parametrize("lamports", [890_880, SOL])
def test_an_account_whose_address_got_lamports_later_is_created_by_another_run(installation, lamports):
    installation.deployer(served(tokens={Asset.SOL: str(NATIVE_MINT)})).deploy()
    (_, *others) = list(escrow_accounts(installation))
    for address, *_ in others:
        put(address, lamports)

    assert installation.deployer().deploy().tx

    assert [look(address)[1] for address, *_ in others] == [str(program) for _, _, program, _ in others]


def test_what_is_there_already_is_left_alone_and_costs_nothing(installation):
    first = installation.deployer().deploy()
    lamports = installation.lamports()

    again = installation.deployer().deploy()

    assert (again.escrow, again.tx) == (first.escrow, "")
    assert installation.lamports() == lamports


def test_an_asset_that_was_added_gets_its_account(installation):
    only_sol = served(tokens={Asset.SOL: str(NATIVE_MINT)})
    installation.deployer(only_sol).deploy()
    (_, *others) = list(escrow_accounts(installation))
    assert not any(look(address) for address, *_ in others)

    assert installation.deployer().deploy().tx

    assert all(look(address) for address, *_ in others)


def test_the_escrow_that_comes_with_us_is_what_would_be_made():
    assert held_key("POLICY_SIGNER_SOLANA_KEY")
    signers = EscrowSigners(
        Keypair.from_seed_and_derivation_path(held_key("RELAYER_SEED"), "m/44'/501'/0'/0'").pubkey(),
        Keypair.from_seed(held_key("POLICY_SIGNER_SOLANA_KEY")).pubkey(),
        Keypair.from_seed(bytes.fromhex(open_folder().keys()["SOLANA_OWNER_KEY"])).pubkey(),
    )

    assert served().owner == str(signers.owner)
    assert served().escrow == str(signers.escrow(TOKEN_PROGRAM_ID))
    assert look(served().escrow) == (signers.multisig_data, str(TOKEN_PROGRAM_ID))


# --- What is refused, before anything is sent -------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("one", "other"), [("policy_signer", "relayer"), ("owner", "relayer"), ("owner", "policy_signer")]
)
def test_one_key_is_not_two_signers(installation, one, other):
    installation.signers = replace(installation.signers, **{one: getattr(installation.signers, other)})

    assert "one alone would move everything" in installation.refusal()
    assert look(installation.escrow(TOKEN_PROGRAM_ID)) is None


def test_an_owner_that_no_key_can_sign_for_is_refused(installation):
    vault = associated_account(Keypair().pubkey(), NATIVE_MINT, TOKEN_PROGRAM_ID)
    installation.signers = replace(installation.signers, owner=vault)

    assert f"No key can sign for the owner {vault}" in installation.refusal()
    assert look(installation.escrow(TOKEN_PROGRAM_ID)) is None


def test_a_relayer_that_cannot_pay_is_told_what_it_takes():
    poor = Installation(lamports=10_000_000)

    assert f"{poor.relayer.pubkey()} has 0.01 SOL, and may need 0.0" in poor.refusal()
    assert look(poor.escrow(TOKEN_PROGRAM_ID)) is None


def test_an_address_where_something_else_is_is_not_used(installation):
    other = replace(installation.signers, policy_signer=installation.relayer.pubkey()).multisig_data
    put(installation.escrow(TOKEN_2022_PROGRAM_ID), SOL, other, TOKEN_2022_PROGRAM_ID)

    assert str(installation.escrow(TOKEN_2022_PROGRAM_ID)) in installation.refusal()
    assert look(installation.escrow(TOKEN_PROGRAM_ID)) is None


def test_a_mint_that_is_not_there_or_is_none_is_named(installation):
    nowhere, relayer = Keypair().pubkey(), installation.relayer.pubkey()
    wallet = associated_account(relayer, NATIVE_MINT, TOKEN_PROGRAM_ID)
    put(wallet, SOL, bytes(TOKEN_ACCOUNT), TOKEN_PROGRAM_ID)

    for address in (nowhere, wallet):
        installation.deployer(served(tokens={Asset.USDC: str(address), Asset.SOL: str(NATIVE_MINT)})).deploy()
        assert str(address) in "".join(installation.told)
    assert look(installation.escrow(TOKEN_PROGRAM_ID))  # the other asset goes on


def test_an_asset_that_cannot_be_paid_with_gets_no_account_and_that_is_told(installation):
    tokens = {Asset.USDC: served().tokens[Asset.USDC], Asset.EURC: str(NATIVE_MINT)}

    installation.deployer(served(tokens=tokens)).deploy()

    assert "The mint of EURC has 9 decimals instead of 6." in installation.told
    usdc, eurc = (
        associated_account(installation.escrow(TOKEN_PROGRAM_ID), Pubkey.from_string(mint), TOKEN_PROGRAM_ID)
        for mint in tokens.values()
    )
    assert look(usdc)
    assert look(eurc) is None


def test_nothing_is_signed_for_a_node_of_another_chain_or_none(installation):
    for deployer in (
        installation.deployer(genesis_hash="5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"),
        installation.deployer(served(rpc_urls=(AWAY,))),
    ):
        with pytest.raises(ChainUnavailable):
            deployer.deploy()
    assert look(installation.escrow(TOKEN_PROGRAM_ID)) is None
