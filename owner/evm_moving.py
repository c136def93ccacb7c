"""Move an EVM chain to another escrow, as to one of a newer release: deploy it before, and switch to it afterwards.

The old one is left only when nothing is missing that only its own history tells: it is paused, so that no deposit comes
after the search has passed, and what was in flight has come to its end. Then its owner takes everything out, straight
into the new one. The ledger knows these transfers: they are neither outflows of the old escrow nor deposits in the new.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from eth_utils.crypto import keccak

from chains.evm.adapter import EvmChain
from chains.evm.answers import read_number
from chains.evm.configuration_check import Expected
from chains.evm.contract_calls import encode_call
from chains.evm.found_tokens import Token
from chains.evm.inspection import inspect
from chains.evm.owner_calls import withdraw
from chains.port import ChainUnavailable
from foundation.commands import AUTHOR
from foundation.environment.keys import held_key
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.money import from_base_units, to_base_units
from owner.escrow_transfers import book_transfer, find_open_transfers
from owner.evm.calls import pause
from owner.evm.roles import read_roles
from owner.evm_calling import WantedCalls, have_called
from owner.rotations import Task, find_in_flight
from payments.models import DepositCursor, Withdrawal
from payments.settling.relayers import find_rotation
from services.served_chains import configured_roles, evm_chain

_COMMAND = "move_escrow"
_PAUSES = ["0x" + keccak(text=one).hex() for one in ("Paused(address)", "Unpaused(address)")]
_REASON = "The escrow is exchanged for another one (move_escrow)."


def move(task: Task, new: str) -> dict[str, str]:
    """Move everything from the configured escrow of a chain to `new`, an address; returns the variables to be set.

    Raises:
        ValueError: `DEPLOYER_KEY` is no key.
        OperationRefused: the new escrow is not what it should be, or a withdrawal is open.
        ChainUnavailable: no node answers.
        NotDoneYet: something has to be waited for.
    """
    return _Move(task, new).run()


class _Move:
    def __init__(self, task: Task, new: str) -> None:
        self._task, self._new = task, new
        self._chain = evm_chain(task.caip2)

    def run(self) -> dict[str, str]:
        self._check_new()
        self._task.stop(_REASON)
        self._task.wait(lambda: find_in_flight(self._task.caip2))
        self._refuse_open_withdrawals()
        have_called(self._task, self._chain, self._find_pause, made_by=_COMMAND)
        self._task.wait(self._find_unsearched)
        self._refuse_open_withdrawals()  # all that there is is booked now: none may be made of the same money
        for asset, units in self._task.ask(self._read_held).items():
            self._book(asset, units)
        have_called(self._task, self._chain, self._find_withdrawals, made_by=_COMMAND)
        self._task.wait(self._find_not_landed)
        return {f"{self._task.served.chain.variables}_ESCROW": self._new}

    @property
    def _old(self) -> str:
        return self._task.served.escrow

    def _check_new(self) -> None:
        """Refuse an escrow that would not pay as the present one does, or that another owner has."""
        if self._new == self._old:
            raise OperationRefused(f"{self._new} is the escrow that is configured.")
        served = replace(self._task.served, escrow=self._new, owner=self._owner())
        signer, relayers = configured_roles().policy_signer, find_rotation(self._task.caip2, self._chain)
        new = EvmChain.of(served, held_key("RELAYER_SEED"), policy_signer=signer)
        found = [*new.inspector.find_foreign(relayers), *new.inspector.find_mismatches(relayers)]
        found += _find_lacks(_find_tokens(new), _find_tokens(self._chain))
        if found:
            raise OperationRefused(" ".join(dict.fromkeys(found)))

    def _owner(self) -> str:
        return read_roles(self._chain, ()).owner

    def _refuse_open_withdrawals(self) -> None:
        waiting = Withdrawal.objects.filter(chain=self._task.caip2, agent__isnull=False)
        if names := [str(one) for one in waiting.filter(landed_block=None, cancelled_at=None)]:
            raise OperationRefused(f"Let these withdrawals land, or cancel them: {', '.join(names)}.")

    def _find_pause(self) -> WantedCalls:
        calls = [] if self._is_paused() else [pause(self._old)]
        return WantedCalls(self._owner(), calls)

    def _find_unsearched(self) -> str:
        """Say that the escrow's history was not searched up to a block in which no deposit could come any more."""
        cursor = DepositCursor.objects.filter(chain=self._task.caip2, escrow=self._old).first()
        searched = None if cursor is None else cursor.undisputed_block
        if searched is not None and self._is_paused_since(searched):
            return ""
        return "the history of the escrow is not searched up to its pause yet; the workers do that."

    def _book(self, asset: Asset, units: int) -> None:
        """Book what moves, once: anybody may send the escrow a little more while its owner signs; that stays behind."""
        transfers = find_open_transfers(self._task.caip2, self._old).filter(asset=asset)
        if transfers.exclude(recipient=self._new).exists():
            raise OperationRefused(f"Another transfer of {asset} out of {self._old} is booked and has not landed.")
        if units and not transfers.exists():
            amount = from_base_units(units, asset)
            book_transfer(
                self._task.caip2, escrow=self._old, asset=asset, amount=amount, recipient=self._new, by=AUTHOR
            )

    def _find_withdrawals(self) -> WantedCalls:
        held, calls = self._read_held(), []
        for booked in find_open_transfers(self._task.caip2, self._old).order_by("pk"):
            asset = Asset(booked.asset)
            units = to_base_units(booked.amount, asset)
            if held[asset] >= units:
                calls.append(withdraw(self._old, self._task.served.tokens[asset], self._new, units))
        return WantedCalls(self._owner(), calls)

    def _find_not_landed(self) -> str:
        waiting = list(find_open_transfers(self._task.caip2, self._old))
        return f"{len(waiting)} transfers are not final yet; the workers follow them." if waiting else ""

    def _read_held(self) -> dict[Asset, int]:
        """Read what the escrow holds of each token now, in base units."""
        tokens = self._task.served.tokens
        asked = [_view(token, encode_call("balanceOf(address)", self._old)) for token in tokens.values()]
        held = self._chain.nodes.read_agreed(asked, lambda answers: [read_number(answer) for answer in answers])
        return dict(zip(tokens, held, strict=True))

    def _is_paused_since(self, block: int) -> bool:
        """Tell whether it was paused in a block, and ever since: by events, as few nodes keep its state."""
        asked = {"address": self._old, "topics": [_PAUSES], "fromBlock": hex(block), "toBlock": "latest"}
        changes = self._chain.nodes.read_agreed([("eth_getLogs", asked)], lambda answers: len(answers[0]))
        return changes == 0 and self._is_paused()

    def _is_paused(self) -> bool:
        asked = [_view(self._old, encode_call("paused()"))]
        return bool(self._chain.nodes.read_agreed(asked, lambda answers: read_number(answers[0])))


def _find_tokens(chain: EvmChain) -> Sequence[Token]:
    """Find within which limits an escrow pays with each token.

    Raises:
        ChainUnavailable: no node of the chain answers.
    """
    served = chain.served
    expected = Expected(served.chain.chain_id, served.escrow, served.tokens, None)
    if (contracts := inspect(chain.inspector.singles, expected).contracts) is None:
        raise ChainUnavailable("No node tells of the escrow.")
    return contracts.tokens


def _find_lacks(new: Sequence[Token], old: Sequence[Token]) -> Iterator[str]:
    """Find what the new escrow would refuse to pay and the old one pays."""
    for one, before in zip(new, old, strict=True):
        if before.objection is not None:
            continue
        if one.objection is not None:
            yield one.objection
        elif (one.daily_cap or 0) < (before.daily_cap or 0):
            yield f"Its daily cap for {one.asset} is lower than the present one's: its owner sets it (setDailyCap)."
        if before.authorizations is not None and one.authorizations is None:
            yield f"It lets no payee take {one.asset} itself, as the present one does (x402): its owner lets it."


def _view(to: str, data: bytes) -> tuple[Any, ...]:
    return ("eth_call", {"to": to, "data": "0x" + data.hex()}, "latest")
