"""Who has whose account in hand, who is independent of whom, and who decides about accounts alone. Pure: the one rule.

An account is *in hand* of whoever could use it. That is whoever did alone what can give an account away: made it, saw a
link for it, changed or activated it. It is, too, whoever has in hand all accounts that did this together, and whoever
has such a person in hand. It ends with a link that no Administrator can open: one that two made in halves, or one that
went to an e-mail address which two have seen. The password of before is gone then.

Two people are independent if nobody has both in hand, and neither they nor whoever has them in hand ever had a part in
what can give the other one away: not even as one of two.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

# The audit's names of what can give an account away to whoever does it, or decides what it may do.
MADE, LINK = "person.made", "person.link_made"
TAKES = frozenset({MADE, LINK, "person.roles_changed", "person.second_factor_reset", "person.activated"})
# A link that went to the account's address: nobody here sees it.
SENT = "person.link_sent"
ABOUT_HANDS = TAKES | {SENT}
# What somebody had sent before an account was taken out of their hand may be asked for a little later. Nothing else is
# left to them: a link ends sessions, and logins that wait for their code (`sign_in.stages`).
_OUTLASTS = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Act:
    """Something that was done with an account, as the audit has it: by one person, or by two.

    `is_of_decider`: the account may decide about accounts from then on, or might until then.
    """

    action: str
    account: str
    author: str
    second: str
    at: datetime
    is_of_decider: bool = False

    @property
    def people(self) -> frozenset[str]:
        """Give whose act it was; nobody's, if a command did it: who runs those has everything in hand anyway."""
        return frozenset({self.author, self.second} - {""}) if " " not in self.author else frozenset()


class Hands:
    """What follows from all that was done with accounts until now, oldest first."""

    def __init__(self, acts: Iterable[Act]) -> None:
        self._acts = tuple(act for act in acts if act.action in ABOUT_HANDS)
        self._parts = {(person, act.account) for act in self._acts if act.action in TAKES for person in act.people}

    def holders_of(self, account: str, *, since: datetime) -> frozenset[str]:
        """Name who has had an account in hand since a moment, or could have begun something until then; not its owner.

        What ends later than that has not ended for what was begun then.
        """
        return _reach(account, self._held(since)) - {account}

    def parts_in(self, account: str) -> frozenset[str]:
        """Name who ever had a part in what can give an account away."""
        return frozenset(person for person, about in self._parts if about == account)

    def are_independent(self, one: str, other: str, *, since: datetime) -> bool:
        """Tell whether one may be the second person of the other, for what was asked for at a moment."""
        held = self._held(since)
        pairs = ((this, that) for this in _reach(one, held) for that in _reach(other, held))
        return not any(
            this == that or (this, that) in self._parts or (that, this) in self._parts for this, that in pairs
        )

    def acts_alone(self, person: str, deciders: Iterable[str]) -> bool:
        """Tell whether somebody has never had a colleague who decides about accounts; `deciders`: who may now.

        Nothing makes this true again once it was not: whom somebody deactivated, or made, is a colleague all the same.
        """
        return not {*deciders, *(act.account for act in self._acts if act.is_of_decider)} - {person}

    def is_address_known(self, account: str, *, since: datetime) -> bool:
        """Tell whether two people who are independent, or a command, have seen the e-mail address of an account."""
        _, unseen = self._go_through(since)
        return account not in unseen

    def _held(self, since: datetime) -> Mapping[str, frozenset[str]]:
        held, _ = self._go_through(since)
        return held

    def _go_through(self, since: datetime) -> tuple[Mapping[str, frozenset[str]], set[str]]:
        """Find whose hands each account is in, and the accounts whose address one person alone has seen.

        What counts is who had whom in hand when it was done.
        """
        held: dict[str, frozenset[str]] = {}
        unseen: set[str] = set()
        for act in self._acts:
            if not act.people:
                continue
            alone = frozenset.intersection(*(_reach(person, held) for person in act.people))
            if act.action == MADE and alone:
                unseen.add(act.account)
            if act.action == SENT or (act.action == LINK and not alone):
                if act.at + _OUTLASTS <= since and (act.action == LINK or act.account not in unseen):
                    held[act.account] = frozenset()
                    unseen.discard(act.account)
            else:
                held[act.account] = held.get(act.account, frozenset()) | alone
        return held, unseen


def _reach(account: str, held: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Find who could use an account: its owner, whoever has it in hand, whoever has these in hand, and so on."""
    found, new = {account}, [account]
    while new:
        more = held.get(new.pop(), frozenset()) - found
        found |= more
        new += more
    return frozenset(found)
