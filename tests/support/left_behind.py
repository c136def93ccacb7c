"""What all tests share and none may change for the others: the real escrow, the relayers and the signer's switch.

A test makes agents, services and payments of its own; of these there is one. What it changed is put back, and it fails.
"""

from dataclasses import dataclass, field
from typing import Any, Self

from django.conf import settings

from payments.models import ChainState, Relayer
from payments.settling.relayers import find_rotation
from policy.models import SignerSwitch
from tests.support.evm_escrow import call, rpc
from tests.support.local_ids import LOCALNET
from tests.support.localnets import EVM, LOCALNETS


@dataclass(frozen=True, slots=True)
class Shared:
    """What the database has of it."""

    stopped: dict[str, str]
    enabled: set[int]
    is_signing: bool
    relayers: set[int] = field(compare=False)

    @classmethod
    def read(cls) -> Self:
        relayers = dict(_relayers().values_list("pk", "is_enabled"))
        return cls(
            dict(_states().values_list("chain", "stopped_reason")),
            {pk for pk, is_enabled in relayers.items() if is_enabled},
            not SignerSwitch.objects.filter(is_signing=False).exists(),
            set(relayers),
        )

    def put_back(self) -> list[str]:
        """Put back what is not as it was; tell what that is."""
        _look_again()
        now = type(self).read()
        if now == self:
            return []
        for chain, reason in self.stopped.items():
            ChainState.objects.filter(chain=chain).update(stopped_reason=reason)
        _relayers().update(is_enabled=False)
        _relayers().filter(pk__in=self.enabled).update(is_enabled=True)
        SignerSwitch.objects.update(is_signing=self.is_signing)
        return [f"{now}, and before the test {self}"]


def changes_of_the_escrow() -> list[str]:
    """Tell in what the real EVM escrow is not what is configured, or would not pay."""
    found = EVM.adapter.inspector.find_mismatches(find_rotation(LOCALNET, EVM.adapter))
    address = settings.CHAINS[LOCALNET].escrow
    uncapped = [
        asset
        for asset, token in settings.CHAINS[LOCALNET].tokens.items()
        if not int(rpc("eth_call", {"to": address, "data": call("dailyCap(address)", token)}, "latest"), 16)
    ]
    return found + [f"The escrow pays no {asset}." for asset in uncapped]


def _look_again() -> None:
    """Let the watcher see that a chain is what is configured again: by itself it looks once a minute."""
    refused = set(_states().exclude(mismatch="").values_list("chain", flat=True))
    for localnet in LOCALNETS:
        if localnet.caip2 in refused:
            localnet.observe()


def _states() -> Any:
    return ChainState.objects.filter(chain__in=settings.CHAINS)


def _relayers() -> Any:
    return Relayer.objects.filter(chain__in=settings.CHAINS)
