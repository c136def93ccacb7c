"""`manage.py createsuperuser`: Django's own, recorded in the audit."""

from typing import Any

from django.contrib.auth.management.commands import createsuperuser
from django.contrib.auth.models import User
from django.db import transaction

from foundation.commands import AUTHOR
from staff.audit import record


class Command(createsuperuser.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        with transaction.atomic():
            known = set(User.objects.values_list("username", flat=True))
            super().handle(*args, **options)
            for username in User.objects.exclude(username__in=known).values_list("username", flat=True):
                record(
                    "person.made", subject_type="person", subject=username, by=AUTHOR, after={"roles": ["Superuser"]}
                )
