"""What stands in the way of paying a recipient: an account that it has closed, or too little rent in it. Pure."""

from collections.abc import Mapping
from typing import Any

from solders.pubkey import Pubkey

from chains.port import ChainUnavailable, Obstacle
from foundation.kernel.assets import Asset
from foundation.kernel.money import format_amount, from_base_units

CLOSED = (
    "The recipient has closed its account for {asset} and must open it again: made by us, it would take its rent out "
    "of the relayer each time."
)


def is_new(account: Pubkey, asset: Asset, payee: Mapping[str, Any] | None) -> bool:
    """Return whether a payee never had an account for a token: only then do we make one. Refuse a closed account.

    If it was closed unseen, the payment fails on the chain, and costs the relayer no rent.
    """
    seen = {} if payee is None else payee
    if str(account) in seen.get("closed", ()):
        raise ChainUnavailable(CLOSED.format(asset=asset))
    return str(account) not in seen.get("opened", ())


def find_rent_obstacle(lamports: int, held: int, minimum: int) -> Obstacle | None:
    """Object to a payment that leaves an account, which holds so much, below the chain's minimum."""
    if held + lamports >= minimum:
        return None
    most, least = from_base_units(minimum, Asset.SOL), from_base_units(minimum - held, Asset.SOL)
    return Obstacle(
        f"The recipient would hold less than {format_amount(most)} SOL, which is the least that an account must hold: "
        f"pay at least {format_amount(least)} SOL at once, or have it hold more before.",
        least,
    )


def check_payee(lamports: int, payee: Mapping[str, Any] | None, minimum: int) -> None:
    """Refuse a payment that leaves an account below the chain's minimum; one that was not observed may be empty."""
    held = None if payee is None else payee.get("lamports")
    if obstacle := find_rent_obstacle(lamports, held or 0, minimum):
        why = "It is not known what the recipient holds. If it is nothing: " if held is None else ""
        raise ChainUnavailable(f"{why}{obstacle.message}")
