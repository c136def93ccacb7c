"""The settlement assets and their decimals.

Source: docs/interface-specification.md, field `asset`; docs/background.md, "Assets".
"""

from enum import StrEnum


class Asset(StrEnum):
    USDC = "USDC"
    SOL = "SOL"
    USDT = "USDT"
    PYUSD = "PYUSD"
    EURC = "EURC"

    @property
    def decimals(self) -> int:
        """Number of fraction digits of the asset on every chain that serves it."""
        return 9 if self is Asset.SOL else 6
