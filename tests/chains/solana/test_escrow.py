"""The escrow on Solana's virtual machine: no key alone does anything with it, and any two of three do."""

import pytest
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.system_program import TransferParams, transfer
from solders.transaction_metadata import FailedTransactionMetadata, TransactionMetadata
from spl.token import models
from spl.token.constants import TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID
from spl.token.instructions import (
    approve,
    burn,
    close_account,
    set_authority,
    transfer_checked,
)
from spl.token.instructions import transfer as transfer_tokens
from spl.token.models import AuthorityType

from foundation.kernel.assets import Asset
from tests.support.solana_vm import SOL, Bench

ASSETS = [Asset.SOL, Asset.USDC, Asset.PYUSD]


@pytest.fixture
def bench():
    return Bench()


@pytest.fixture
def recipient():
    return Keypair().pubkey()


class Attack:
    """What could be tried on an account of the escrow: an instruction that two signatures would be enough for."""

    def __init__(self, bench, asset, signers):
        program = bench.program(asset)
        self.bench, self.asset, self.keys = bench, asset, [signer.pubkey() for signer in signers]
        self.thief = Keypair().pubkey()
        self.common = {"program_id": program, "signers": self.keys}
        self.account, self.mint = bench.escrow_account(asset), bench.mints[asset]
        self.owner = bench.escrow(program)
        bench.fund(asset, self.thief, 0)
        self.loot = bench.where(asset, self.thief)

    def transfer(self):
        return transfer_tokens(
            models.TransferParams(source=self.account, dest=self.loot, owner=self.owner, amount=1, **self.common)
        )

    def transfer_checked(self):
        return transfer_checked(
            models.TransferCheckedParams(
                source=self.account,
                dest=self.loot,
                mint=self.mint,
                owner=self.owner,
                amount=1,
                decimals=self.asset.decimals,
                **self.common,
            )
        )

    def approve(self):
        return approve(
            models.ApproveParams(source=self.account, delegate=self.thief, owner=self.owner, amount=1, **self.common)
        )

    def burn(self):
        return burn(models.BurnParams(account=self.account, mint=self.mint, owner=self.owner, amount=1, **self.common))

    def change_owner(self):
        return self.set_authority(AuthorityType.ACCOUNT_OWNER)

    def change_closer(self):
        return self.set_authority(AuthorityType.CLOSE_ACCOUNT)

    def close(self):
        if self.asset is not Asset.SOL:
            # Only an empty one can be closed.
            self.bench.fund(self.asset, self.owner, 0)
        return close_account(
            models.CloseAccountParams(account=self.account, dest=self.thief, owner=self.owner, **self.common)
        )

    def withdraw_lamports(self):
        """Take what an account has beyond its rent; the multisig is one of its own."""
        self.bench.vm.airdrop(self.owner, SOL)
        accounts = [AccountMeta(self.owner, False, True), AccountMeta(self.thief, False, True)]
        return Instruction(self.common["program_id"], bytes([38]), [*accounts, *self.signatures()])

    def unwrap(self):
        """Take SOL out of its account without closing it."""
        accounts = [AccountMeta(self.account, False, True), AccountMeta(self.thief, False, True)]
        return Instruction(self.common["program_id"], bytes([45, False]), [*accounts, *self.signatures()])

    def set_authority(self, kind):
        return set_authority(
            models.SetAuthorityParams(
                account=self.account,
                authority=kind,
                current_authority=self.owner,
                new_authority=self.thief,
                **self.common,
            )
        )

    def signatures(self):
        return [AccountMeta(self.owner, False, False), *(AccountMeta(key, True, False) for key in self.keys)]


OF_ALL = ["transfer_checked", "approve", "close", "withdraw_lamports", "change_closer"]
# SOL cannot be burned; a token that may have a fee is not transferred without its mint; of SOL, and under Token-2022,
# an account stays its owner's.
POSSIBLE = [
    *((asset, name) for asset in ASSETS for name in OF_ALL),
    (Asset.SOL, "transfer"),
    (Asset.SOL, "unwrap"),
    (Asset.USDC, "transfer"),
    (Asset.USDC, "burn"),
    (Asset.PYUSD, "burn"),
    (Asset.USDC, "change_owner"),
]
SIGNERS = {
    "nobody": [],
    "the relayer": ["relayer"],
    "the relayer twice": ["relayer", "relayer"],
    "the policy signer": ["policy"],
    "the policy signer twice": ["policy", "policy"],
    "the owner": ["owner"],
    "the owner twice": ["owner", "owner"],
    "the relayer and a stranger": ["relayer", "stranger"],
    "a stranger and the policy signer": ["stranger", "policy"],
    "the owner and a stranger": ["owner", "stranger"],
    "two strangers": ["stranger", "other"],
    # Those who are named and have not signed.
    "the relayer, naming the policy signer": ["relayer", "-policy"],
    "the owner, naming both others": ["owner", "-relayer", "-policy"],
}
PAIRS = [["relayer", "policy"], ["owner", "relayer"], ["owner", "policy"], ["policy", "relayer"]]


def attempt(bench, asset, name, who):
    """Try it; returns the outcome and what the escrow's accounts were before and are after."""
    keys = {
        "relayer": bench.relayer, "policy": bench.policy, "owner": bench.owner, "stranger": Keypair(),
        "other": Keypair(),
    }  # fmt: skip
    signers = [keys[one] for one in who if not one.startswith("-")]
    named = [keys[one.removeprefix("-")] for one in who]
    attack = Attack(bench, asset, named)
    absent = {key.pubkey() for key in named} - {key.pubkey() for key in signers}
    instruction = unsigned(getattr(attack, name)(), {attack.owner, *absent})
    payer = Keypair()
    bench.vm.airdrop(payer.pubkey(), SOL)
    before = everything(bench)
    outcome = bench.run([instruction], payer, *dict.fromkeys(signers))
    return outcome, before, everything(bench)


def unsigned(instruction, without):
    """Leave out signatures: the library asks for that of an account that has no key, where there is no other."""
    accounts = [
        AccountMeta(one.pubkey, one.is_signer and one.pubkey not in without, one.is_writable)
        for one in instruction.accounts
    ]
    return Instruction(instruction.program_id, bytes(instruction.data), accounts)


def everything(bench):
    """Read all that the escrow is and has."""
    multisigs = [bench.escrow(program) for program in (TOKEN_PROGRAM_ID, TOKEN_2022_PROGRAM_ID)]
    return [bench.vm.get_account(one) for one in (*multisigs, *map(bench.escrow_account, ASSETS))]


@pytest.mark.parametrize("who", SIGNERS.values(), ids=SIGNERS)
@pytest.mark.parametrize(("asset", "name"), POSSIBLE)
def test_no_key_alone_does_anything_with_the_escrow(bench, asset, name, who):
    outcome, before, after = attempt(bench, asset, name, who)

    assert isinstance(outcome, FailedTransactionMetadata)
    assert after == before


@pytest.mark.parametrize("who", PAIRS, ids=" and ".join)
@pytest.mark.parametrize(("asset", "name"), POSSIBLE)
def test_any_two_keys_together_can_do_it(bench, asset, name, who):
    outcome, before, after = attempt(bench, asset, name, who)

    assert isinstance(outcome, TransactionMetadata), outcome
    assert after != before


@pytest.mark.parametrize("signer", ["relayer", "policy", "owner"])
def test_the_escrow_itself_is_nobodys_account(bench, signer, recipient):
    key = getattr(bench, signer)
    bench.vm.airdrop(key.pubkey(), SOL)
    before = everything(bench)
    address = bench.escrow(TOKEN_PROGRAM_ID)
    taken = unsigned(transfer(TransferParams(from_pubkey=address, to_pubkey=recipient, lamports=1)), {address})

    assert isinstance(bench.run([taken], key), FailedTransactionMetadata)
    assert everything(bench) == before
