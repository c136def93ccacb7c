"""Create the escrow: a multisig under each of the two token programs, and its account for each asset.

The relayer pays and signs alone: it can create these accounts, but cannot move their holdings. Accounts that exist stay
as they are, so this may be run again, for example after an asset was added.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeGuard

from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import AllocateWithSeedParams, TransferParams, allocate_with_seed, transfer
from spl.token.constants import MULTISIG_LEN
from spl.token.instructions import create_idempotent_associated_token_account, initialize_multisig2
from spl.token.models import InitializeMultisig2Params

from chains.catalogue import ServedChain
from chains.rpc.nodes import Nodes
from chains.solana.account_history import find_oldest_slot
from chains.solana.answers import Account
from chains.solana.derivation import (
    SIGNATURES,
    TOKEN_PROGRAM,
    TOKEN_PROGRAMS,
    EscrowSigners,
)
from chains.solana.mints import Mint
from chains.solana.token_accounts import read_asset_mint
from chains.solana.withdrawing import FEE_LAMPORTS
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.money import format_amount, from_base_units
from owner.solana.sending import Sender

# Including the extensions of Token-2022, whose exact length is known only once an account exists.
_LARGEST_TOKEN_ACCOUNT = 300


@dataclass(frozen=True, slots=True)
class Deployment:
    """An escrow that exists. `tx` is "" if nothing had to be created.

    No deposit is older than `slot`; None: the escrow existed before, and no node knows since when.
    """

    escrow: str
    tx: str
    slot: int | None


class Deployer:
    """Creates the escrow of `signers`, paid by their relayer.

    `nodes` are of the right chain; `report` gets progress messages, never a secret.

    Raises:
        OperationRefused: the three signers cannot have an escrow.
    """

    def __init__(
        self, served: ServedChain, nodes: Nodes, relayer: Keypair, signers: EscrowSigners, report: Callable[[str], None]
    ) -> None:
        if signers.objection:
            raise OperationRefused(signers.objection)
        self._served, self._nodes, self._report = served, nodes, report
        self._sender = Sender(served.chain, nodes, relayer, report)
        self._relayer, self._signers = self._sender.key, signers
        self._escrows = {program: signers.escrow(program) for program in TOKEN_PROGRAMS}
        self.address, self.escrow = str(self._relayer), str(self._escrows[TOKEN_PROGRAM])

    def deploy(self) -> Deployment:
        """Create the missing accounts, and verify the escrow.

        Raises:
            OperationRefused: the relayer cannot pay for it, or the escrow is not complete afterwards.
            ChainUnavailable: no node answers.
        """
        slot = self._find_first_slot()
        instructions = self._find_missing()
        if not instructions:
            self._report(f"{self.escrow} exists already.")
            return Deployment(self.escrow, "", slot)
        # The address is known before anything is sent: if this is interrupted, the escrow is found there.
        self._report(f"The escrow will be {self.escrow}.")
        tx = self._sender.send(instructions)
        if self._find_missing():
            raise OperationRefused(f"{tx} did not create all of the escrow: do not use it.")
        return Deployment(self.escrow, tx, slot)

    def _find_first_slot(self) -> int | None:
        """Read the newest slot; if a part of the escrow exists, the slot of its creation: it may have deposits, too."""
        slot = self._sender.find_slot()
        found = self._sender.find_accounts(list(self._escrows.values()))
        there = [str(escrow) for program, escrow in self._escrows.items() if self._is_there(program, found[escrow])]
        if not there:
            return slot
        self._report("Searching for the slot of its creation ...")
        made = [made for escrow in there if (made := find_oldest_slot(self._nodes, escrow)) is not None]
        return min(made, default=None)

    def _find_missing(self) -> list[Instruction]:
        """Return the instructions that create the missing accounts; check that the relayer can pay for them."""
        accounts = self._token_accounts(self._find_mints())
        found = self._sender.find_accounts([self._relayer, *self._escrows.values(), *accounts])
        programs = [program for program, escrow in self._escrows.items() if not self._is_there(program, found[escrow])]
        missing = [create for address, create in accounts.items() if not _is_made(found[address])]
        rent = self._sender.find_rent(MULTISIG_LEN)
        if programs or missing:
            needed = len(programs) * rent + len(missing) * self._sender.find_rent(_LARGEST_TOKEN_ACCOUNT)
            self._check_funds(found[self._relayer], needed + FEE_LAMPORTS)
        return [*(step for program in programs for step in self._create(program, rent)), *missing]

    def _is_there(self, program: Pubkey, found: Account | None) -> bool:
        """Return whether a multisig exists. Raises `OperationRefused` if another account is in its place."""
        if not _is_made(found):
            return False
        if (found.owner, found.data) != (str(program), self._signers.multisig_data):
            raise OperationRefused(f"{self._escrows[program]} is not the escrow of these signers: do not use it.")
        return True

    def _check_funds(self, found: Account | None, needed_lamports: int) -> None:
        held = 0 if found is None else found.lamports
        if held < needed_lamports:
            has, wants = (format_amount(from_base_units(lamports, Asset.SOL)) for lamports in (held, needed_lamports))
            raise OperationRefused(f"{self.address} has {has} SOL, and may need {wants}.")

    def _create(self, program: Pubkey, rent_lamports: int) -> list[Instruction]:
        """Return the instructions that create a multisig, even if its address holds lamports already."""
        escrow, seed, signers = self._escrows[program], self._signers.seed, list(self._signers.keys)
        return [
            transfer(TransferParams(from_pubkey=self._relayer, to_pubkey=escrow, lamports=rent_lamports)),
            allocate_with_seed(
                AllocateWithSeedParams(address=escrow, base=self._relayer, seed=seed, space=MULTISIG_LEN, owner=program)
            ),
            initialize_multisig2(
                InitializeMultisig2Params(program_id=program, multisig=escrow, m=SIGNATURES, signers=signers)
            ),
        ]

    def _token_accounts(self, mints: dict[Pubkey, Mint]) -> dict[Pubkey, Instruction]:
        """Return the escrow's account of each asset that can be paid with, with the instruction that creates it."""
        accounts = {}
        for mint, found in mints.items():
            if found.objection is not None:
                self._report(found.objection)
                continue
            program = Pubkey.from_string(found.program)
            escrow = self._escrows[program]
            create = create_idempotent_associated_token_account(self._relayer, escrow, mint, program)
            accounts[self._signers.account(mint, program)] = create
        return accounts

    def _find_mints(self) -> dict[Pubkey, Mint]:
        assets = {Pubkey.from_string(mint): asset for asset, mint in self._served.tokens.items()}
        found = self._sender.find_accounts(list(assets))
        return {mint: read_asset_mint(asset, str(mint), found[mint]) for mint, asset in assets.items()}


def _is_made(found: Account | None) -> TypeGuard[Account]:
    """Return whether an account exists: it has data. Plain lamports prove nothing, since anybody can send them."""
    return found is not None and bool(found.data)
