"""Look at the escrow of each chain: its roles, tokens and caps, and who has its keys."""

from collections.abc import Iterator, Sequence

from django.conf import settings

from chains.catalogue import ServedChain
from chains.evm.adapter import EvmChain
from chains.evm.daily_caps import read_daily_caps
from chains.port import ChainUnavailable
from foundation.kernel.money import format_amount
from operators.doctor.diagnoses import Diagnosis, diagnosis_of, error, ok, warning
from operators.doctor.looking import reading
from payments.findings.chains import of_assets, of_mismatch
from payments.settling.relayers import find_rotation
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
        inspection = adapter.inspector.inspect(rotation)
        try:
            mismatches = inspection.find_mismatches()
        except ChainUnavailable as trouble:
            yield error(subject, f"The escrow cannot be looked at: {trouble}", "See what is wrong with its nodes")
            continue
        for sentence in mismatches:
            yield diagnosis_of(of_mismatch(caip2, sentence), _mend(sentence, served))
        for sentence in [one for one in inspection.find_foreign() if one not in mismatches]:
            yield error(subject, f"{sentence} No release passes.", _mend(sentence, served))
        if not mismatches:
            yield ok(subject, "The escrow and its roles are what is configured.")
            yield _of_tokens(caip2, inspection.find_objections(), served)
            yield from _of_escrow(adapter, served) if isinstance(adapter, EvmChain) else ()


def _mend(sentence: str, served: ServedChain) -> str:
    form = next((mend for word, mend in _MENDS.items() if word in sentence), "python manage.py chains")
    return form.format(alias=served.chain.alias, variables=served.chain.variables)


def _of_tokens(caip2: str, objections: Sequence[str], served: ServedChain) -> Diagnosis:
    """Name the assets that are not paid with; the others are."""
    if not objections:
        return ok(f"{served.chain.alias}, tokens", f"All {len(served.tokens)} can be paid with.")
    found = of_assets(caip2, objections, is_paying=len(objections) < len(served.tokens))
    return diagnosis_of(found, "; ".join(dict.fromkeys(_mend(sentence, served) for sentence in objections)))


def _of_escrow(adapter: EvmChain, served: ServedChain) -> Iterator[Diagnosis]:
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
