"""Look at the escrow of each chain: its roles, tokens and caps, who has its keys, and whether signing goes on there."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from django.conf import settings

from chains.catalogue import ServedChain
from chains.evm.adapter import EvmChain
from chains.evm.daily_caps import read_daily_caps
from chains.port import ChainUnavailable
from foundation.kernel.money import format_amount
from foundation.kernel.times import is_fresh, utc_now
from operators.doctor.diagnoses import Diagnosis, error, ok, warning
from operators.doctor.looking import reading
from payments.models import ChainState
from payments.settling.relayers import find_rotation
from policy.models import SignerSwitch
from services.served_chains import make_chain

_LITTLE = 10  # a tenth of the cap
# What mends a difference, by a word of the sentence that names it; the first that occurs.
_MENDS = {
    "is of chain": "Correct {variables}_RPC_URLS: it names a node of another chain",
    "is of the chain": "Correct {variables}_RPC_URLS: it names a node of another chain",
    "owner is": "If you have made it the owner, correct {variables}_OWNER; otherwise: docs/operate/keys.md",
    "policy signer": "Give back the policy signer's key in use, or: python manage.py rotate_keys {alias}",
    "relayers": "Its owner calls setRelayer(ADDRESS, true), or: manage.py relayers --chain {alias} --disable ADDRESS",
    "paused": "Its owner calls unpause() on the escrow, once the reason is gone",
    "daily cap": "Its owner calls setDailyCap(token, amount) on the escrow",
    "There is no escrow": "Correct {variables}_ESCROW, or: python manage.py deploy_escrow {alias}",
    "at ": "Correct {variables}_TOKENS",
}


def find_escrow_differences() -> Iterator[Diagnosis]:
    """Compare each escrow with the configuration, as `manage.py chains` does."""
    for caip2, served in settings.CHAINS.items():
        adapter, subject = make_chain(caip2), f"{served.chain.alias}, escrow"
        with reading():
            rotation = find_rotation(caip2, adapter)
        inspection = adapter.inspect(rotation)
        try:
            mismatches = inspection.find_mismatches()
        except ChainUnavailable as trouble:
            yield error(subject, f"The escrow cannot be looked at: {trouble}", "See what is wrong with its nodes")
            continue
        for sentence in mismatches:
            yield error(subject, f"{sentence} Nothing is paid there.", _mend(sentence, served))
        for sentence in [one for one in inspection.find_foreign() if one not in mismatches]:
            yield error(subject, f"{sentence} No release passes.", _mend(sentence, served))
        if not mismatches:
            yield ok(subject, "The escrow and its roles are what is configured.")
            yield from _token_findings(inspection.find_objections(), served)
            yield from _escrow_findings(adapter, served) if isinstance(adapter, EvmChain) else ()


def _mend(sentence: str, served: ServedChain) -> str:
    form = next((mend for word, mend in _MENDS.items() if word in sentence), "python manage.py chains")
    return form.format(alias=served.chain.alias, variables=served.chain.variables)


def _token_findings(objections: Sequence[str], served: ServedChain) -> Iterator[Diagnosis]:
    """Name the assets that are not paid with; the others are."""
    subject = f"{served.chain.alias}, tokens"
    for sentence in objections:
        yield warning(subject, f"Not paid with: {sentence}", _mend(sentence, served))
    if not objections:
        yield ok(subject, f"All {len(served.tokens)} can be paid with.")


def _escrow_findings(adapter: EvmChain, served: ServedChain) -> Iterator[Diagnosis]:
    """Look at who owns an EVM escrow, and what it may still pay today."""
    alias = served.chain.alias
    if served.owner is None and not served.chain.is_test:
        says = "No release compares the escrow's owner, who can take everything: it is not set here."
        yield warning(f"{alias}, owner", says, f"Set {served.chain.variables}_OWNER to who owns it")
    for asset, cap in read_daily_caps(adapter.nodes, served.escrow, served.tokens).items():
        subject = f"{alias}, {asset}"
        mend = f"Its owner calls setDailyCap({served.tokens[asset]}, amount) on {served.escrow}"
        if cap.left * _LITTLE < cap.most:
            says = f"Until midnight UTC, {format_amount(cap.left)} is left of a daily cap of {format_amount(cap.most)}."
            yield warning(subject, says, mend)
        else:
            yield ok(subject, f"{format_amount(cap.left)} of {format_amount(cap.most)} may still be paid today.")


def find_stopped_signing() -> Iterator[Diagnosis]:
    """Find what was stopped, by a person or by an alarm, and chains that nobody watches."""
    switch = SignerSwitch.objects.first()
    if switch is None or not switch.is_signing:
        by = f" {switch.changed_by} stopped it." if switch and switch.changed_by else ""
        yield error("policy signer", f"It is out of service: nothing is paid.{by}", "python manage.py start_signing")
    else:
        yield ok("policy signer", "It is in service.")
    states = ChainState.objects.in_bulk(list(settings.CHAINS))
    for caip2, served in settings.CHAINS.items():
        yield _of_state(served, states.get(caip2))


def _of_state(served: ServedChain, state: ChainState | None) -> Diagnosis:
    alias, longest = served.chain.alias, timedelta(seconds=settings.CHAIN_STATE_MAX_AGE_S)
    subject = f"{alias}, signing"
    if state is not None and state.stopped_reason:
        mend = f"Once the cause is gone: python manage.py start_chain {alias}; docs/operate/failures.md"
        return error(subject, f"Signing is stopped on it: {state.stopped_reason}", mend)
    if state is None or not is_fresh(state.observed_at, utc_now(), longest):
        since = f"since {state.observed_at:%Y-%m-%d %H:%M} UTC" if state else "yet"
        mend = "Start worker and beat; if they run, see its nodes above, and the worker's log"
        return error(subject, f"No worker has observed it {since}: payments there get 503.", mend)
    if state.mismatch:
        says = f"When a worker last looked, it was not what is configured: {state.mismatch}"
        return error(subject, says, "python manage.py chains; a worker looks again within a minute")
    return ok(subject, "It is observed, and signing goes on.")
