"""Look at what the log and the ledger rest on: keys of receipts, comparisons with the chains, open alarms."""

from collections.abc import Iterator
from datetime import timedelta

from django.conf import settings

from backoffice.models import Alarm
from backoffice.queue.items import Severity
from chains.catalogue import alias_of
from foundation.kernel.times import is_fresh, utc_now
from ledger.models import LogEntry
from ledger.receipts import ReceiptError, receipt, verify
from operators.doctor.diagnoses import Diagnosis, error, ok, warning
from operators.doctor.looking import ask
from payments.funding.pools import read_pools
from payments.models import Verdict
from payments.queries import find_newest_reconciliations
from policy.signer import published_keys

_NOT_COMPARED_FOR = timedelta(minutes=10)
_MOST_ALARMS = 20
_PUBLISH = (
    "Put the public half of the earlier POLICY_SIGNER_ED25519_KEY into RETIRED_RECEIPT_KEYS: docs/operate/keys.md"
)
# The keys of the log's both ends, and of a sample in between: all of it may be a hundred million rows.
_KEY_IDS = """
    SELECT key_id, max(id) FROM (
        (SELECT key_id, id FROM ledger_logentry ORDER BY id LIMIT 1000)
        UNION ALL (SELECT key_id, id FROM ledger_logentry ORDER BY id DESC LIMIT 1000)
        UNION ALL (SELECT key_id, id FROM ledger_logentry TABLESAMPLE SYSTEM (0.1) LIMIT 100000)
    ) AS entries GROUP BY key_id ORDER BY key_id
"""


def find_unpublished_keys() -> Iterator[Diagnosis]:
    """Verify an entry of each key that signed the log with the keys that are published."""
    keys = published_keys()["keys"]
    rows = ask(_KEY_IDS)
    bad = 0
    for key_id, entry_id in rows:
        try:
            verify(receipt(LogEntry.objects.get(pk=entry_id)), keys)
        except ReceiptError as trouble:
            bad += 1
            says = f"Entry {entry_id} does not verify: {trouble}"
            is_known = any(key.get("kid") == key_id for key in keys)
            mend = "python manage.py verify_log" if is_known else _PUBLISH
            yield error(f"key {key_id[:12]}…", says, mend)
    if not bad:
        yield ok("receipts", f"Entries of {len(rows)} keys verify with the {len(keys)} that are published.")


def find_old_comparisons() -> Iterator[Diagnosis]:
    """See that each escrow was compared with the ledger lately, and nothing is missing."""
    newest = {(row.chain, row.asset): row for row in find_newest_reconciliations()}
    now = utc_now()
    for caip2, served in settings.CHAINS.items():
        rows = [newest[caip2, asset] for asset in served.tokens if (caip2, asset) in newest]
        missing = [f"{row.missing.normalize():f} {row.asset}" for row in rows if row.verdict is Verdict.MISSING]
        unconfirmed = sum(len(row.unconfirmed) for row in rows)
        at = max((row.created_at for row in rows), default=None)
        alias = served.chain.alias
        if missing or unconfirmed:
            says = f"Missing: {', '.join(missing) or 'nothing'}; {unconfirmed} settled payments are not confirmed."
            yield error(alias, says, "python manage.py reconcile: docs/operate/promises-exceed-holdings.md")
        elif not is_fresh(at, now, _NOT_COMPARED_FOR):
            since = f"since {at:%Y-%m-%d %H:%M} UTC" if at else "yet"
            yield error(
                alias,
                f"Its escrow was not compared with the ledger {since}.",
                "Start worker and beat; python manage.py reconcile says why not",
            )
        else:
            yield ok(alias, f"{len(rows)} assets were compared, and nothing is missing.")


def find_overdrawn_pools() -> Iterator[Diagnosis]:
    """See that no more is promised than all escrows hold."""
    pools = read_pools()
    for pool in pools:
        if pool.is_overdrawn:
            yield error(pool.asset, str(pool), "python manage.py reconcile: docs/operate/promises-exceed-holdings.md")
    if not any(pool.is_overdrawn for pool in pools):
        yield ok("promises", "No more is promised than all escrows hold.")


def find_open_alarms() -> Iterator[Diagnosis]:
    """List the alarms whose cause is still there."""
    alarms = list(Alarm.objects.filter(is_over=False, cleared_at=None).order_by("-id")[:_MOST_ALARMS])
    for alarm in alarms:
        found = error if alarm.severity == Severity.ERROR else warning
        subject = f"{alarm.kind} {alias_of(alarm.subject)}".strip()
        yield found(subject, alarm.sentence, f"The console's page {alarm.url}")
    if not alarms:
        yield ok("alarms", "None is open.")
