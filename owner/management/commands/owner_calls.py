"""`manage.py owner_calls CHAIN [--daily-cap ASSET=AMOUNT …] [--x402 ASSET=MOST,RESERVE …] [--pause | --unpause]`."""

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from chains.catalogue import ServedChain, Vm
from chains.evm.owner_calls import OwnerCall
from chains.port import ChainUnavailable
from foundation.commands import JsonCommand
from foundation.kernel.money import to_base_units
from owner.calls import show_owner_calls
from owner.evm.calls import pause, set_authorization_limits, set_daily_cap, set_relayer, unpause
from owner.evm.roles import GivenRoles, read_roles
from owner.evm_escrow import read_authorization_limits, read_cap
from payments.settling.relayers import find_rotation
from services.served_chains import configured_roles, evm_chain, read_chain


class Command(JsonCommand):
    help = (
        "Print what the owner of an EVM escrow has to call, as calldata and as a file for the Transaction Builder of a "
        "Safe: to enable our relayers that the escrow does not know, and what is asked for. It sends nothing. The "
        "policy signer is exchanged by rotate_keys, tokens are taken out by withdraw_funds."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("chain", help="An alias such as base, or CAIP-2.")
        parser.add_argument(
            "--daily-cap",
            action="append",
            default=[],
            metavar="ASSET=AMOUNT",
            help="How much of an asset may be paid per UTC day. May be repeated.",
        )
        parser.add_argument(
            "--x402",
            action="append",
            default=[],
            metavar="ASSET=MOST,RESERVE",
            help="Let payees take up to MOST at once while RESERVE stays: see docs/integrate/x402.md. 0,0: no more.",
        )
        switch = parser.add_mutually_exclusive_group()
        switch.add_argument("--pause", action="store_true", help="Let the escrow neither pay nor take deposits.")
        switch.add_argument("--unpause", action="store_true", help="Let it go on.")

    def perform(self, **options: Any) -> dict[str, Any]:
        served: ServedChain = settings.CHAINS[read_chain(options["chain"])]
        chain = served.chain
        if chain.vm is not Vm.EVM:
            raise CommandError("The owner of an escrow on Solana has nothing to call: nothing about it can be changed.")
        adapter = evm_chain(chain.caip2)
        relayers = find_rotation(chain.caip2, adapter)
        try:
            roles = read_roles(adapter, relayers)
        except ChainUnavailable as error:
            raise CommandError(str(error)) from error
        if roles.policy_signer != configured_roles().policy_signer:
            self.stderr.write("The escrow has another policy signer than this configuration: see rotate_keys.")
        calls = list(_find_calls(served, roles, relayers, options))
        shown: dict[str, Any] = {"owner": roles.owner, "calls": [], "safe": None}
        if not calls:
            self.stderr.write("The escrow knows all our relayers: there is nothing to call.")
        else:
            shown = show_owner_calls(
                calls, owner=roles.owner, chain=chain, made_by="owner_calls", tell=self.stderr.write,
                show=self.stdout.write,
            )  # fmt: skip
        return {"chain": chain.caip2, "escrow": served.escrow, **shown}


def _find_calls(
    served: ServedChain, roles: GivenRoles, relayers: list[str], options: dict[str, Any]
) -> Iterator[OwnerCall]:
    for relayer in relayers:
        if relayer not in roles.enabled:
            yield set_relayer(served.escrow, relayer, enabled=True)
    for text in options["daily_cap"]:
        asset, amount = read_cap(text, served)
        yield set_daily_cap(served.escrow, served.tokens[asset], to_base_units(amount, asset))
    for text in options["x402"]:
        asset, most, reserve = read_authorization_limits(text, served)
        units = (to_base_units(amount, asset) for amount in (most, reserve))
        yield set_authorization_limits(served.escrow, served.tokens[asset], *units)
    if options["pause"]:
        yield pause(served.escrow)
    if options["unpause"]:
        yield unpause(served.escrow)
