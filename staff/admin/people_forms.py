"""The forms of the pages of people, and what is said above them."""

from collections.abc import Sequence
from typing import Any, Self

from django import forms

from staff.roles import ROLES

_LINK = """It takes two. Once another Administrator has confirmed it, they see the address of the link, and you a code
that is asked for there, on the page of the request. Each gives their half to the owner of the account, where the other
one cannot read it. The password of before stops working, and the sessions end."""
_LINK_ALONE = """Whoever opens the link sets the password of this account: hand it to nobody but its owner. It is valid
once, for a day. You could use the account yourself, so it is in your hand from then on: it can be no second person of
yours, nor of another account in your hand."""
_SENT = """A link by which its owner sets a password, once, within a day, goes to the e-mail address of this account.
Nobody else sees it. The password of before stops working, and the sessions end."""
_RESET = """The authenticator and the recovery codes of this person stop working, and their sessions end. At the next
sign-in they set up another one. See that it is really them who ask you."""
# By the name of the change: its title, and what happens.
STEPS = {
    "change_roles": ("Change roles", "This person may then do what the chosen roles may do, and no more."),
    "make_link": ("Make a one-time link", _LINK),
    "make_link_alone": ("Make a one-time link", _LINK_ALONE),
    "send_link": ("Send a one-time link", _SENT),
    "reset_second_factor": ("Reset second factor", _RESET),
    "let_in": (
        "Let in again",
        "Wrong passwords of this person are forgotten: they may try again at once. Wrong codes count for 15 minutes.",
    ),
    "end_sessions": ("End sessions", "This person is signed out everywhere, and may sign in again."),
    "deactivate": ("Deactivate", "This person is signed out at once and cannot sign in. The account is kept."),
    "activate": ("Activate", "This person can sign in again."),
}
_CHOICES = [(role.name, f"{role.name} {role.purpose}") for role in ROLES]


class ReasonForm(forms.Form):
    """Why something is done."""

    reason = forms.CharField(max_length=500, widget=forms.TextInput(attrs={"size": 60}))

    @classmethod
    def of(cls, roles: Sequence[str], data: Any) -> Self:
        """Make the form for somebody who has these roles."""
        return cls(data, initial={"roles": roles, "before": list(roles)})


class RolesForm(ReasonForm):
    """Which roles somebody shall have, and which the author saw them have."""

    roles = forms.MultipleChoiceField(choices=_CHOICES, required=False, widget=forms.CheckboxSelectMultiple)
    before = forms.MultipleChoiceField(choices=_CHOICES, required=False, widget=forms.MultipleHiddenInput)
    field_order = ("roles", "reason")


class NewAccountForm(ReasonForm):
    """Whose account it is, and what they may do."""

    username = forms.CharField(max_length=150, label="User name", help_text="Letters, digits and @ . + - _ only.")
    name = forms.CharField(max_length=150, label="Full name")
    email = forms.EmailField(max_length=254, label="E-mail", help_text="Single sign-on knows the person by it.")
    roles = forms.MultipleChoiceField(choices=_CHOICES, widget=forms.CheckboxSelectMultiple)
    field_order = ("username", "name", "email", "roles", "reason")
