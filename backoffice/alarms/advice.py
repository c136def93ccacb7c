"""What each kind of alarm means, what to do about it, and which pages help. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from backoffice.queue.trouble_words import DENIES_PAYMENTS, DIFFERS, MISSING_MONEY


@dataclass(frozen=True, slots=True)
class Page:
    """A list of the console, its name as in its address; `{subject}` in its query is what the alarm is about."""

    words: str
    name: str
    query: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Advice:
    """What an alarm means and what to do. `runbook` is a page below docs, which the console shows."""

    means: str
    to_do: str
    runbook: str
    pages: tuple[Page, ...] = ()


_OF_CHAIN = {"chain": "{subject}"}
_OUTFLOWS = Page("Outflows that are not booked", "payments_outflow", {"state": "open", **_OF_CHAIN})
_COMPARISONS = Page("Comparisons of the escrow with the ledger", "payments_reconciliation", _OF_CHAIN)
_ON_THEIR_WAY = Page(
    "Payments on their way there, and their agents", "payments_payment", {"status__exact": "approved", **_OF_CHAIN}
)
_AUDIT = Page("The audit", "staff_auditentry")
_RELAYERS = Page("Relayers", "payments_relayer")
_CHAINS = Page("Chains", "payments_chainstate")
_ON_THEIR_WAY_ANYWHERE = Page(
    "Payments on their way, and their agents", "payments_payment", {"status__exact": "approved"}
)

_MISSING = Advice(
    "Less is in the escrow than the ledger says: something left it that no payment of ours explains. Signing stops by "
    "itself where that happens, so that no more leaves. Payments that wait are safe; new ones there are not made.",
    "Do not start signing again yet. Look at each outflow in an explorer, and find out who sent it and why. If a key "
    "may have been taken, change it first. Then book each outflow, as an agent's money or as a loss; the next "
    "comparison must add up. Only then start signing again.",
    "operate/promises-exceed-holdings",
    (_OUTFLOWS, _COMPARISONS, _ON_THEIR_WAY),
)  # fmt: skip
_DENIED = Advice(
    "The ledger says that payments are settled, and the chain does not confirm them: a node lies or lags, or the chain "
    "was reorganized more deeply than is waited for.",
    "Compare the named payments with an explorer of somebody else. If they are there, take the node that denies them "
    "out. If they are not, stop signing on the chain, and tell whoever was to be paid.",
    "operate/lying-provider",
    (_COMPARISONS, _ON_THEIR_WAY),
)
_MISMATCH = Advice(
    "The escrow or the node is not what the settings say. Nothing is paid on this chain, so that nothing is sent to a "
    "contract that is not ours.",
    "Find out which of the two has changed: the settings, by a deployment, or the contract, by its owner. Put the "
    "settings right. If nobody of yours changed the contract, take it that its owner's key was stolen.",
    "operate/stuck-chain",
    (_CHAINS, _ON_THEIR_WAY),
)
_STOPPED = Advice(
    "No payment on this chain is signed. What is approved waits and is not lost; new payments there are answered 503.",
    "Read why it was stopped, and mend that first. Then start signing again on the chain's page, with the reason.",
    "operate/stuck-chain",
    (_OUTFLOWS, _COMPARISONS, _ON_THEIR_WAY),
)
_OF_THE_WEBHOOKS = "Payees are told late or not at all that they were paid. No payment waits for it, and none is lost."

# By the first word of the kind, or the whole kind.
_ADVICE = {
    "signer": Advice(
        "Nothing is paid on any chain: every new payment is answered 503.",
        "If a colleague stopped it, ask why before you start it again: the policy key may have been taken.",
        "operate/keys", (_AUDIT,),
    ),
    "pools": Advice(
        "The agents' balances of this asset and what is promised are more than all escrows hold. If all were spent "
        "today, the last payments would find no money.",
        "See by the comparisons which escrow lacks it and since when, then book what left it, or send what is missing "
        "to the escrow. Do not credit any agent by hand meanwhile.",
        "operate/promises-exceed-holdings",
        (
            Page("Comparisons of the escrows with the ledger", "payments_reconciliation"),
            Page("Outflows that are not booked", "payments_outflow", {"state": "open"}),
            Page("Agents and their balances", "policy_agent"),
        ),
    ),
    "outflows": Advice(
        "Money left an escrow without a payment of the ledger. Until it is booked, the ledger says more than there is, "
        "and signing stays stopped on that chain.",
        "Look at each transaction in an explorer: who sent it, and to whom? If it was not one of you, change the keys. "
        "Then book it: as an agent's money, whose balance falls, or as a loss.",
        "operate/promises-exceed-holdings",
        (
            Page("Comparisons of the escrows with the ledger", "payments_reconciliation"), _CHAINS,
            _ON_THEIR_WAY_ANYWHERE,
        ),
    ),
    "unseen": Advice(
        "Nobody has looked at this chain for too long. Nothing is paid there, since nobody can say what is true there; "
        "what is approved waits.",
        "See whether the worker runs, then whether the chain's nodes answer: `manage.py doctor` says which do not.",
        "operate/stuck-chain", (_CHAINS, _ON_THEIR_WAY),
    ),
    "nodes": Advice(
        "One node says something else than the others: it lies, lags or is on a fork. What most nodes say counts, so "
        "payments and deposits go on. Nothing is given back that this node denies, and two that lie alike would be "
        "believed.",
        "Compare its answers with the others' and with an explorer of somebody else, then put another provider's "
        "address in its place.",
        "operate/lying-provider",
        (_CHAINS, _ON_THEIR_WAY),
    ),
    "assets": Advice(
        "Payments in this asset on this chain are refused. All other assets and chains go on.",
        "The alarm says what is wrong with the asset. Put its token's address right in the settings, or leave it out.",
        "operate/chains", (_CHAINS,),
    ),
    "relayers": Advice(
        "Relayers pay the chain's fees. One that is short sends nothing; when all are, approved payments wait and new "
        "ones are answered 503. No agent's money is touched by that.",
        "Send the chain's own coin to the addresses of the relayers that are short: the list of relayers has them.",
        "operate/chains", (_RELAYERS, _ON_THEIR_WAY),
    ),
    "requests": Advice(
        "A colleague asked for a change that one person may not make alone. Nothing has changed yet.",
        "Somebody else who may do so opens it, compares what is asked with what they know from elsewhere, not from the "
        "request itself, and confirms or refuses it.",
        "console/four-eyes",
    ),
    "approvals": Advice(
        "Somebody registered a payee, or a new address of one. No agent can pay it there before you decide.",
        "Compare its address with what the payee told you by another way. A changed address, or one that looks like "
        "another payee's, is what a thief would ask for.",
        "console/approvals",
    ),
    "payees": Advice(
        "Agents could pay a payee until somebody registered it anew. Now all payments to it are refused.",
        "Ask the payee by a way that you knew before. If it has moved, approve it. If not, reject it, revoke the key, "
        "and let the payee register as it was before: that, one person may approve.",
        "console/approvals", (_AUDIT, Page("API keys", "policy_apikey")),
    ),
    "deposits": Advice(
        "Money came into an escrow that names no agent of ours, or an asset that the agent does not have. It is safe "
        "there, and on no agent's balance.",
        "Find out whose it is by its sender, and credit it to that agent; otherwise leave it.",
        "console/agents",
    ),
    "limit": Advice(
        "These agents' next payments will be refused until some of what they spent is older than the limit's span.",
        "See what they spent it on. If that is right, raise the limit; if not, pause the agent.",
        "console/agents",
    ),
    "dry": Advice(
        "At the speed of the last days these agents' money is used up soon; then their payments are refused.",
        "Fund them, or let them run dry on purpose.",
        "console/agents",
    ),
    "unsettled": Advice(
        "These payments are approved and were not confirmed by their chain for longer than usual. Their money is held; "
        "none is paid twice.",
        "Open the oldest one: its steps say what it waits for. Most often a chain is slow or its relayers are empty.",
        "operate/stuck-chain", (_CHAINS, _RELAYERS),
    ),
    "gas": Advice(
        "This agent's payments cost so many fees in 24 hours that no more of them are approved on this chain.",
        "See whether the agent pays too often in too small amounts, or was taken over; then raise the budget or wait.",
        "operate/chains", (_ON_THEIR_WAY_ANYWHERE,),
    ),
    "webhooks overdue": Advice(_OF_THE_WEBHOOKS, "See whether the process `webhooks` runs.", "operate/processes"),
    "webhooks disabled": Advice(
        _OF_THE_WEBHOOKS,
        "An endpoint that failed for days is not told any more. Ask the payee to mend it, then enable it again.",
        "operate/failures",
    ),
    "webhooks failing": Advice(
        _OF_THE_WEBHOOKS,
        "Open the endpoint to see what it answered, and tell the payee. It is tried again by itself.",
        "operate/failures",
    ),
    "lockouts": Advice(
        "Somebody gave wrong passwords or codes too often: a colleague has forgotten theirs, or a thief tries to guess "
        "them. That sign-in is refused for a while, also with the right ones.",
        "Ask the colleague by another way. If it was not them, let them change the password, and see in the audit from "
        "where it came.",
        "console/sign-in", (_AUDIT,),
    ),
    "looking": Advice(
        "The database did not answer in time when it was looked for such causes: one may be there and not be told.",
        "See whether the database is overloaded or away: `manage.py doctor`.",
        "operate/growing",
    ),
}  # fmt: skip
_OF_CHAINS = {MISSING_MONEY: _MISSING, DENIES_PAYMENTS: _DENIED, DIFFERS: _MISMATCH}
ADVISED_KINDS = ("chains", *_ADVICE)


def advice_on(kind: str, sentence: str) -> Advice | None:
    """Find what to say of an alarm; None: it is of a kind that this release does not know."""
    if kind == "chains":
        return next((advice for words, advice in _OF_CHAINS.items() if words in sentence), _STOPPED)
    return _ADVICE.get(kind) or _ADVICE.get(kind.split(" ", 1)[0])
