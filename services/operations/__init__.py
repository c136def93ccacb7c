"""Writes on services: registration by anyone with the scope, decisions by finance staff.

`pending_approval → approved | rejected`, `approved ↔ disabled`, `rejected → pending_approval` where staff take a
registration up again. An approval covers the exact registration. Every registration is kept, and every decision on it.
Source: docs/contract.md, "Lifecycle" and "Services"; docs/background.md, "Traps", 15 and 16.
"""

from services.operations.deciding import (
    approve_checked,
    approve_service,
    check_approval,
    disable_service,
    enable_service,
    reject_service,
    reopen_service,
)
from services.operations.registering import UNCHANGED, Registration, register_service
from services.operations.tagging import set_tags

__all__ = [
    "UNCHANGED",
    "Registration",
    "approve_checked",
    "approve_service",
    "check_approval",
    "disable_service",
    "enable_service",
    "register_service",
    "reject_service",
    "reopen_service",
    "set_tags",
]
