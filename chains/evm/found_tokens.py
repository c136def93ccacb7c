"""What a token was found to be on the chain, and within which limits its escrow pays with it. Pure."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from foundation.kernel.assets import Asset
from foundation.kernel.money import format_amount, from_base_units


@dataclass(frozen=True, slots=True)
class Authorizations:
    """Within which limits the escrow authorizes payees to take a token themselves, in its base units.

    `domain` is the separator of the token's EIP-712 domain, in hex.
    """

    most: int
    reserve: int
    domain: str


@dataclass(frozen=True, slots=True)
class Token:
    """A token's own answers, None where it gave none; `daily_cap` is the most that the escrow may pay in a day.

    `authorizations` is None if the escrow gives none.
    """

    asset: Asset
    address: str
    has_code: bool
    decimals: int | None
    symbol: str | None
    daily_cap: Decimal | None
    authorizations: Authorizations | None = None

    @property
    def objection(self) -> str | None:
        """Explain why the asset is not paid with; None: it is. The other assets are not affected."""
        if not self.has_code:
            return f"There is no {self.asset} at {self.address}."
        if self.decimals is None:
            return f"The {self.asset} at {self.address} does not tell its decimals: it is no token."
        if self.decimals != self.asset.decimals:
            return f"The {self.asset} at {self.address} has {self.decimals} decimals, not {self.asset.decimals}."
        if self.daily_cap == 0:
            return f"The escrow's daily cap for {self.asset} is zero: its owner sets it (setDailyCap)."
        return None

    @property
    def observed(self) -> dict[str, Any]:
        """The part of the observed state of the chain that is about this token, as JSON."""
        state: dict[str, Any] = {"objection": self.objection}
        if self.authorizations is not None:
            state["authorizations"] = {"most": str(self.authorizations.most), "domain": self.authorizations.domain}
        return state

    def describe(self) -> str:
        """Describe the token for people."""
        cap = "unknown" if self.daily_cap is None else format_amount(self.daily_cap)
        said = f"{self.address}, {self.symbol}, {self.decimals} decimals, at most {cap} a day"
        if (limits := self.authorizations) is not None:
            most, reserve = self._format(limits.most), self._format(limits.reserve)
            said += f", at most {most} by an authorization (x402), which leaves {reserve}"
        return said + (f", not paid with: {self.objection}" if self.objection else "")

    def as_json(self) -> dict[str, Any]:
        """Describe the token for programs, as JSON."""
        limits = self.authorizations
        return {
            "asset": self.asset,
            "address": self.address,
            "symbol": self.symbol,
            "decimals": self.decimals,
            "dailyCap": None if self.daily_cap is None else format_amount(self.daily_cap),
            "mostPerAuthorization": None if limits is None else self._format(limits.most),
            "objection": self.objection,
        }

    def _format(self, units: int) -> str:
        return format_amount(from_base_units(units, self.asset))
