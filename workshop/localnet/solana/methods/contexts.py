"""Answers that say which slot they are about."""

from typing import Any

from workshop.localnet.solana.chain import Bank

API_VERSION = "3.0.0"


def in_context(bank: Bank, value: Any) -> dict[str, Any]:
    """Return an answer with the slot that it is about."""
    return {"context": {"slot": bank.slot, "apiVersion": API_VERSION}, "value": value}
