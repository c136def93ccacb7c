"""Look at what the log rests on, the keys of receipts, and at open alarms."""

from collections.abc import Iterator

from backoffice.models import Alarm
from chains.catalogue import alias_of
from foundation.findings import Severity
from ledger.models import LogEntry
from ledger.receipts import ReceiptError, receipt, verify
from operators.doctor.diagnoses import Diagnosis, error, ok, warning
from operators.doctor.looking import ask
from policy.signer import published_keys

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


def find_open_alarms() -> Iterator[Diagnosis]:
    """List the alarms whose cause is still there."""
    alarms = list(Alarm.objects.filter(is_over=False, cleared_at=None).order_by("-id")[:_MOST_ALARMS])
    for alarm in alarms:
        found = error if alarm.severity == Severity.ERROR else warning
        subject = f"{alarm.kind} {alias_of(alarm.subject)}".strip()
        yield found(subject, alarm.sentence, f"The console's page {alarm.url}")
    if not alarms:
        yield ok("alarms", "None is open.")
