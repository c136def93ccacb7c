"""How money gets to an agent on each chain: where it goes, how it names the agent, and what a wallet can scan.

A QR code holds an address that wallets open:

- EVM (EIP-681): the call of the escrow's `deposit`. It is a call, and no transfer: tokens that are only sent to the
  contract name no agent and are credited to nobody. The token must let the escrow take the amount first, so `approve`
  has a code, too. Not every wallet opens calls from codes; the page writes the same call out.
- Solana (Solana Pay): a transfer with the agent's id as its memo. The recipient of a token is the owner of the escrow's
  account: wallets derive the account from it. SOL goes to the escrow's account for SOL itself: sent to the owner, it
  could not be recovered.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import quote, urlencode

import segno
from django.conf import settings
from django.utils.safestring import SafeString, mark_safe

from chains.catalogue import NATIVE_MINT, Chain, ServedChain, Vm
from foundation.console.figures import show_amount
from foundation.kernel.assets import Asset
from foundation.kernel.money import format_amount, to_base_units
from payments.queries import find_chain_states
from services.served_chains import find_solana_account

_NARROW = 2  # the quiet zone, in modules; the code stands on a white card


@dataclass(frozen=True, slots=True)
class Code:
    """What a wallet can scan, and what it then does."""

    title: str
    uri: str

    @property
    def svg(self) -> SafeString:
        """The QR code as part of a page, without a style: the content policy forbids those."""
        code = segno.make(self.uri, micro=False)
        return mark_safe(code.svg_inline(border=_NARROW, svgclass="qr", lineclass=None, omitsize=True))  # noqa: S308 - of our own making


@dataclass(frozen=True, slots=True)
class WayIn:
    """How to fund an agent on one chain; `account` "": it is not known yet. `facts` are label and text."""

    served: ServedChain
    account: str
    facts: list[tuple[str, str]]
    codes: list[Code]

    @property
    def chain(self) -> Chain:
        return self.served.chain

    @property
    def is_evm(self) -> bool:
        return self.chain.vm is Vm.EVM


def find_ways_in(agent_id: str, asset: Asset, amount: Decimal | None) -> list[WayIn]:
    """List the ways on the served chains that have the asset; the codes hold the amount if there is one."""
    states = {chain: state.state for chain, state in find_chain_states().items()}
    return list(_ways_in(agent_id, asset, amount, states))


def _ways_in(
    agent_id: str, asset: Asset, amount: Decimal | None, states: Mapping[str, Mapping[str, Any]]
) -> Iterator[WayIn]:
    for caip2, served in settings.CHAINS.items():
        if asset in served.tokens and asset not in served.left_out:
            if served.chain.vm is Vm.EVM:
                yield _evm(served, agent_id, asset, amount)
            else:
                yield _solana(served, find_solana_account(caip2, asset, states.get(caip2, {})), agent_id, asset, amount)


def _evm(served: ServedChain, agent_id: str, asset: Asset, amount: Decimal | None) -> WayIn:
    token, chain_id = served.tokens[asset], served.chain.chain_id
    units = {} if amount is None else {"uint256": str(to_base_units(amount, asset))}
    approve = urlencode({"address": served.escrow, **units})
    deposit = urlencode({"string": agent_id, "address": token, **units}, quote_via=quote)
    shown, counted = units.get("uint256", "AMOUNT"), amount or Decimal(1)
    facts = [
        ("Escrow (contract)", served.escrow),
        (f"{asset} (token)", token),
        ("Network", f"chain id {chain_id}"),
        ("First, on the token", f"approve({served.escrow}, {shown})"),
        ("Then, on the escrow", f'deposit("{agent_id}", {token}, {shown})'),
        ("In base units", f"{show_amount(counted)} {asset} = {to_base_units(counted, asset)}"),
    ]
    codes = [
        Code("1. Let the escrow take the tokens", f"ethereum:{token}@{chain_id}/approve?{approve}"),
        Code("2. Deposit for the agent", f"ethereum:{served.escrow}@{chain_id}/deposit?{deposit}"),
    ]
    return WayIn(served, served.escrow, facts, codes)


def _solana(
    served: ServedChain, account: tuple[str, str] | None, agent_id: str, asset: Asset, amount: Decimal | None
) -> WayIn:
    if account is None:
        return WayIn(served, "", [], [])
    owner, address = account
    mint = served.tokens[asset]
    is_native = mint == NATIVE_MINT
    query = {} if amount is None else {"amount": format_amount(amount)}
    query |= {} if is_native else {"spl-token": mint}
    uri = f"solana:{address if is_native else owner}?{urlencode({**query, 'memo': agent_id}, quote_via=quote)}"
    facts = [
        (f"Escrow's account for {asset}", address),
        ("Memo", agent_id),
        *([] if is_native else [(f"{asset} (mint)", mint), ("Owner of the account", owner)]),
    ]
    codes = [Code(f"Send {asset} with the agent's id as memo", uri)]
    return WayIn(served, address, facts, codes)
