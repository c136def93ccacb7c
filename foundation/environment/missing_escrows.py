"""The problems of a chain that has no escrow yet, which `manage.py deploy_escrow` solves. Pure."""

import re

NO_ESCROW = "is not set: manage.py deploy_escrow {chain} makes one."
IS_PRINTED = "is not set: manage.py deploy_escrow prints it."


def leave_out_missing_escrows(problems: list[str]) -> list[str]:
    """Leave out the problems that deploying an escrow solves: its address and what is printed with it."""
    form = re.escape(NO_ESCROW).replace(re.escape("{chain}"), "[a-z-]+")
    form = rf"CHAIN_[A-Z_]+_(ESCROW {form}|(FIRST_BLOCK|OWNER) {re.escape(IS_PRINTED)})"
    return [problem for problem in problems if not re.fullmatch(form, problem)]
