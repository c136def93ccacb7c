"""One receipt is verified by someone who has only the receipt and the published keys."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.conf import settings
from django.core.management import CommandError, call_command

from ledger.models import LogEntry
from ledger.receipts import MEMBERS, receipt
from policy.models import Agent
from policy.signer import published_keys, receipt_jwk
from tests.support.histories import History


class Desk:
    """An auditor's desk: a receipt, the published keys, and nothing else."""

    def __init__(self, folder: Path, entry: LogEntry) -> None:
        self.receipt: Any = json.loads(json.dumps(receipt(entry)))
        self.keys: Any = json.loads(json.dumps(published_keys()))
        self._receipt_file, self._keys_file = folder / "receipt.json", folder / "keys.json"

    def write(self) -> list[str]:
        self._receipt_file.write_text(json.dumps(self.receipt))
        self._keys_file.write_text(json.dumps(self.keys))
        return [str(self._receipt_file), "--keys", str(self._keys_file)]

    def verify(self) -> dict[str, Any]:
        output = io.StringIO()
        call_command("verify_receipt", *self.write(), stdout=output)
        result: dict[str, Any] = json.loads(output.getvalue())
        return result


@pytest.fixture
def desk(history: History, tmp_path: Path) -> Desk:
    return Desk(tmp_path, history.middle)


def test_every_kind_of_receipt_is_verified(history, tmp_path):
    for entry in history.entries:
        assert Desk(tmp_path, entry).verify() == {"valid": True, "id": entry.id, "keyId": entry.key_id}


def test_the_order_of_members_does_not_matter(desk):
    desk.receipt = dict(reversed(desk.receipt.items()))
    assert desk.verify()["valid"]


@pytest.mark.parametrize("member", MEMBERS)
def test_a_changed_member_is_refused(desk, member):
    old = desk.receipt[member]
    if isinstance(old, str):
        desk.receipt[member] = f"{old}0"
    else:
        desk.receipt[member] = {**(old or {}), "limit": "1"}
    with pytest.raises(CommandError):
        desk.verify()


@pytest.mark.parametrize("member", MEMBERS)
def test_a_missing_member_is_refused(desk, member):
    del desk.receipt[member]
    with pytest.raises(CommandError, match=member):
        desk.verify()


def test_an_added_member_is_refused(desk):
    desk.receipt["approvedBy"] = "finance"
    with pytest.raises(CommandError, match="approvedBy"):
        desk.verify()


def test_a_receipt_under_another_key_of_the_same_name_is_refused(desk):
    stranger = Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    desk.keys = {"keys": [{**receipt_jwk(stranger), "kid": desk.receipt["keyId"]}]}
    with pytest.raises(CommandError, match="signature"):
        desk.verify()


def test_a_key_that_is_not_published_is_refused(desk):
    desk.keys = {"keys": [key for key in desk.keys["keys"] if key.get("kid") != desk.receipt["keyId"]]}
    with pytest.raises(CommandError, match="not among the published keys"):
        desk.verify()


@pytest.mark.parametrize("content", [[], "text", None, 7])
def test_what_is_no_receipt_is_refused(desk, content):
    desk.receipt = content
    with pytest.raises(CommandError, match="not a JSON object"):
        desk.verify()


@pytest.mark.parametrize(
    "content", [[], {}, {"keys": {}}, {"keys": ["text"]}, {"keys": [{"kid": 1, "crv": "Ed25519"}]}]
)
def test_what_is_no_key_set_is_refused(desk, content):
    desk.keys = content
    with pytest.raises(CommandError):
        desk.verify()


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b'{"id": 1'])
def test_what_is_not_json_is_refused(desk, tmp_path, text):
    arguments = desk.write()
    Path(arguments[0]).write_bytes(text)
    with pytest.raises(CommandError, match="cannot be read as JSON"):
        call_command("verify_receipt", *arguments, stdout=io.StringIO())


def test_a_receipt_is_verified_without_database_network_and_settings(desk):
    def run() -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "manage.py", "verify_receipt", *desk.write()]
        return subprocess.run(command, env={}, cwd=settings.BASE_DIR, capture_output=True, text=True, check=False)

    fine = run()
    desk.receipt["amount"] = "1000000"
    forged = run()

    assert fine.returncode == 0, fine.stderr
    assert json.loads(fine.stdout)["valid"] is True
    assert (forged.returncode, forged.stdout) == (1, "")
    assert "hash does not match" in forged.stderr
    assert "Traceback" not in forged.stderr


def test_the_head_of_an_agent_is_its_newest_entry(history):
    assert Agent.objects.get(pk=history.agent.id).last_entry_id == history.entries[-1].id
