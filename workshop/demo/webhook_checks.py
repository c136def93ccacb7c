"""Compare the webhooks that a payee's receiver printed with those that a payment promises. Pure."""

from typing import Any

from workshop.demo.promises import Payment

APPROVED, SETTLED = "payment.approved", "payment.settled"
_SIGNATURES = {"v1", "v1a"}

# One line of `listen --json`: id, type, verified, signatures, reason, body, and more.
Reception = dict[str, Any]


def promise(payment: Payment, state: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Make the `data` of each event, by type, of a payment that is settled; `state` is what the API says of it now.

    Source: docs/contract.md, "Webhooks". No balance, no limits: there are no other members.
    """
    answer = payment.answer.json()
    asked = {name: payment.body[name] for name in ("agentId", "service", "amount", "asset", "reason", "metadata")}
    kept = {name: state.get(name) for name in ("logId", "recipient", "createdAt", "escrowId")}
    data = {"paymentId": answer["id"], **asked, **kept}
    return {
        APPROVED: {**data, "status": "approved", "tx": answer["tx"]},
        SETTLED: {**data, "status": "settled", "tx": state.get("finalTx")},
    }


def is_about(reception: Reception, payment_id: str) -> bool:
    """Tell whether a webhook is about this payment, whether or not it is genuine."""
    return bool(_data(reception).get("paymentId") == payment_id)


def find_fault(reception: Reception, promised: dict[str, dict[str, Any]]) -> str:
    """Say what is wrong with a webhook; "" if it is genuine, signed both ways and as promised."""
    if not reception["verified"]:
        return str(reception["reason"])
    if missing := _SIGNATURES - set(reception["signatures"]):
        return f"not signed {' and '.join(sorted(missing))}"
    body = reception["body"]
    if (body.get("id"), body.get("type")) != (reception["id"], reception["type"]):
        return "the body is another event's"
    expected, data = promised.get(reception["type"]), _data(reception)
    if expected is None:
        return "this event was not promised"
    others = sorted(
        name for name in expected.keys() | data.keys() if name not in data or data[name] != expected.get(name)
    )
    return f"{', '.join(others)} not as promised" if others else ""


def _data(reception: Reception) -> dict[str, Any]:
    data = (reception["body"] or {}).get("data")
    return data if isinstance(data, dict) else {}
