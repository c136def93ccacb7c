"""The rule of hands as it is, as it was, and weakened: the test of all sequences has to find what each lets happen."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import combinations
from typing import Literal

from staff.hands import LINK, SENT, TAKES, Act, Hands

Verdict = Literal["alone", "two", "refused"]


@dataclass(frozen=True, slots=True)
class Staff:
    """What a rule looks at: what was done, and who decides about accounts, at present or when they are active again."""

    acts: Sequence[Act]
    administrators: frozenset[str]
    deciders: frozenset[str]
    now: datetime


class Rule:
    """The rule as the product has it."""

    links_take_two = True
    gives_office_alone = False  # the role of Administrator, by whoever acts alone
    logins_outlast_links = False  # those that wait for their code

    def hands(self, acts: Iterable[Act]) -> Hands:
        return Hands(acts)

    def are_independent(self, staff: Staff, one: str, other: str, since: datetime) -> bool:
        return self.hands(staff.acts).are_independent(one, other, since=since)

    def acts_alone(self, staff: Staff, by: str) -> bool:
        return self.hands(staff.acts).acts_alone(by, staff.deciders)

    def takes(self, staff: Staff, by: str, subject: str) -> Verdict:
        """Tell how many it takes to change an account, as `staff.people_requests` does."""
        if self.acts_alone(staff, by):
            return "alone"
        seconds = staff.administrators - {by, subject}
        return "two" if any(self.are_independent(staff, by, one, staff.now) for one in seconds) else "refused"

    def may_send(self, staff: Staff, by: str, account: str) -> bool:
        is_known = self.hands(staff.acts).is_address_known(account, since=staff.now)
        return is_known or self.acts_alone(staff, by)


class RuleOf1ffccfc(Rule):
    """The rule of release 1ffccfc: a link was no matter of two, and whoever has nobody independent acted alone."""

    links_take_two = False
    gives_office_alone = True

    def are_independent(self, staff: Staff, one: str, other: str, since: datetime) -> bool:
        return not (_has_in_hand(staff.acts, one, other) or _has_in_hand(staff.acts, other, one))

    def takes(self, staff: Staff, by: str, subject: str) -> Verdict:
        deactivated = {a.account for a in staff.acts if a.action == "person.deactivated" and a.author == by}
        others = (staff.administrators | (staff.deciders & deactivated)) - {by}
        if any(self.are_independent(staff, by, one, staff.now) for one in others):
            return "two"
        pairs = combinations(sorted(staff.administrators), 2)
        return "refused" if any(self.are_independent(staff, *pair, staff.now) for pair in pairs) else "alone"


def _has_in_hand(acts: Sequence[Act], person: str, account: str) -> bool:
    return any(act.account == account and act.action in TAKES and person in (act.author, act.second) for act in acts)


class LinksByOne(Rule):
    """A link is no matter of two."""

    links_take_two = False


class NoCommonHand(Rule):
    """Two are independent unless one had a part in what was done with the account of the other."""

    def are_independent(self, staff: Staff, one: str, other: str, since: datetime) -> bool:
        return RuleOf1ffccfc().are_independent(staff, one, other, since)


class AloneWithoutColleagues(Rule):
    """Who has no active colleague acts alone, though they deactivated all others."""

    def acts_alone(self, staff: Staff, by: str) -> bool:
        return not staff.administrators - {by}


class AloneWithoutIndependentOnes(Rule):
    """Who has nobody independent of them acts alone."""

    def takes(self, staff: Staff, by: str, subject: str) -> Verdict:
        verdict = super().takes(staff, by, subject)
        return "alone" if verdict == "refused" else verdict


class LinksToAnyAddress(Rule):
    """A link is sent to an address that one person alone has seen, and ends hands as one that two have made."""

    def hands(self, acts: Iterable[Act]) -> Hands:
        return Hands(replace(one, action=LINK, second="-") if one.action == SENT else one for one in acts)

    def may_send(self, staff: Staff, by: str, account: str) -> bool:
        return True


class LoginsOutlastLinks(Rule):
    """A login that waits for its code goes on though everything else has ended that was begun before a link."""

    logins_outlast_links = True


WEAKER = (
    RuleOf1ffccfc, LinksByOne, NoCommonHand, AloneWithoutColleagues, AloneWithoutIndependentOnes,
    LinksToAnyAddress, LoginsOutlastLinks,
)  # fmt: skip
