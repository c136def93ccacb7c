"""What the chains themselves say, asked of the nodes directly, beside what our books say."""

from collections.abc import Mapping
from dataclasses import dataclass

from foundation.kernel.assets import Asset
from payments.models import Payment
from tests.crash.localnets import Deposited, Localnet, Paid
from tests.crash.world import World


@dataclass(frozen=True, slots=True)
class Account:
    """All that came into an escrow and left it, and what it holds, in base units."""

    held: Mapping[Asset, int]
    paid: list[Paid]
    deposited: list[Deposited]

    @classmethod
    def read(cls, localnet: Localnet) -> "Account":
        held = {asset: localnet.held(asset) for asset in localnet.assets}
        return cls(held, localnet.find_paid(), localnet.find_deposited())


@dataclass(frozen=True, slots=True)
class Evidence:
    """The world at the end, and by the chain's alias what the chain said at the start and says then."""

    world: World
    before: Mapping[str, Account]
    after: Mapping[str, Account]
    payments: dict[str, Payment]

    def new_deposits(self, alias: str) -> list[Deposited]:
        """List what came into an escrow since the start: it was filled before."""
        before = set(self.before[alias].deposited)
        return [one for one in self.after[alias].deposited if one not in before]

    def payments_on(self, chain: str) -> list[Payment]:
        """List the payments of a chain, by its CAIP-2 id."""
        return [payment for payment in self.payments.values() if payment.chain == chain]

    @classmethod
    def collect(cls, world: World, before: Mapping[str, Account]) -> "Evidence":
        payments = {payment.pk: payment for payment in Payment.objects.select_related("agent")}
        after = {alias: Account.read(network.localnet) for alias, network in world.networks.items()}
        return cls(world, before, after, payments)
