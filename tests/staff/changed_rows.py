"""The rows that a change makes or alters, without what each door and each run has of its own."""

import json
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.apps import apps
from django.db import transaction
from django.db.models import AutoField, BigAutoField, ForeignKey, Model

APPS = {"backoffice", "ledger", "payments", "policy", "services", "staff"}
_OF_REQUESTS = "staff.changerequest"


def read_rows() -> dict[tuple[str, Any], dict[str, Any]]:
    """Read all rows, by model and key, without what each door and each run has of its own."""
    models = [model for model in apps.get_models() if model._meta.app_label in APPS]
    return {
        (model._meta.label_lower, row.pk): _plain(row)
        for model in models
        if model._meta.label_lower != _OF_REQUESTS
        for row in model._default_manager.all()
    }


def _plain(row: Model) -> dict[str, Any]:
    found = {}
    for field in row._meta.concrete_fields:
        of = field.target_field if isinstance(field, ForeignKey) else field
        value = field.value_from_object(row)
        if isinstance(of, AutoField | BigAutoField):
            value = value is not None
        found[field.name] = "a moment" if isinstance(value, datetime) else value
    return found


def changed(make: Callable[[], object], author: str, second: str = "") -> list[tuple[str, str]]:
    """Make a change, and take it back; returns the rows that were new or other, with its author as `author`."""
    before = read_rows()
    with transaction.atomic():
        make()
        after = read_rows()
        transaction.set_rollback(True)
    rows = [(of[0], json.dumps(row, default=str)) for of, row in after.items() if before.get(of) != row]
    ours = [(model, row) for model, row in rows if '"subject_type": "request"' not in row]
    return sorted((model, _neutral(row, author, second)) for model, row in ours)


def _neutral(row: str, author: str, second: str) -> str:
    row = row.replace(f'"{author}"', '"author"').replace(f'"confirmed_by": "{second}"', '"confirmed_by": ""')
    row = re.sub(r"(wdr|log|key|evt)_[0-9a-z]{26}", r"\1_new", row)
    return re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "a moment", row)
