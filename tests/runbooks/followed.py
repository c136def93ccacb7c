"""Follow a payment through the logs of all processes by its id, as docs/operate/logging.md says."""

import json
from typing import Any

from tests.runbooks.clients import Request
from tests.runbooks.installation import Company
from tests.runbooks.patience import wait_for
from tests.runbooks.releases import ORDER


def wait_until_told(company: Company, paid: Request) -> None:
    """Wait until the payee has heard that a payment is settled, and the line of that is written."""
    wait_for(lambda: any(one["state"] == "settled" for one in lines_of(company, paid)["webhooks"]), "the payee is told")


def lines_of(company: Company, paid: Request) -> dict[str, list[dict[str, Any]]]:
    """Find the lines of each kind of process that have a payment's id, as `grep` does."""
    return {
        kind: [json.loads(line) for line in company.this.log_of(kind).splitlines() if paid.payment in line]
        for kind in ORDER
    }


def transaction_of(company: Company, paid: Request) -> str:
    ((tx,),) = company.sql(f"SELECT tx FROM payments_settlement WHERE payment_id = '{paid.payment}'")  # noqa: S608
    return str(tx)
