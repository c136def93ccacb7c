"""Who could really use which account: what each person has seen, knows and holds, whatever the product thinks of it."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tests.staff.acts.consoles import Link

DORA = "dora"  # she is dishonest; all others are honest
# What somebody began just before they lost an account may arrive just after.
_ARRIVES_LATE = timedelta(minutes=10)


@dataclass
class Truth:
    """What is true of an account: whose it is, who reads its e-mail, who knows its password, who has its factor."""

    owner: str
    knows_password: set[str] = field(default_factory=set)
    has_factor: str = ""
    used: dict[str, datetime] = field(default_factory=dict)


@dataclass
class Seen:
    """A link, and who has seen it, or its address and its code: `number` is the request of one in two halves."""

    link: Link | None
    addressees: set[str]
    code_holders: set[str] | None = None
    number: int | None = None
    # She may open what she saw while nobody but her decided about accounts, or one person was enough.
    takes_two: bool = True

    def is_open_to(self, person: str) -> bool:
        return person in self.addressees and (self.code_holders is None or person in self.code_holders)


@dataclass
class People:
    """All that people know of accounts and links."""

    has_single_sign_on: bool
    accounts: dict[str, Truth] = field(default_factory=dict)
    links: list[Seen] = field(default_factory=list)

    def can_sign_in(self, person: str, name: str) -> bool:
        """Tell whether somebody could sign in; who has no second factor sets one up."""
        account = self.accounts[name]
        opens = person in account.knows_password or (self.has_single_sign_on and person == account.owner)
        return opens and account.has_factor in ("", person)

    def can_use(self, person: str, name: str, now: datetime) -> bool:
        """Tell whether somebody could use an account now, or could a moment ago: then what they sent may still come."""
        lately = self.accounts[name].used.get(person)
        return self.can_sign_in(person, name) or (lately is not None and now - lately < _ARRIVES_LATE)
