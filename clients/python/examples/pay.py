"""Buy something once: ask first, keep the key, pay, wait until the payment is final.

    ALLOWANCE_URL=http://127.0.0.1:8000 ALLOWANCE_API_KEY=alw_… python pay.py weather-api 0.25 order-1234.key

Run it again with the same file, after a crash for example: it finds the payment of the first run, and pays nothing.
`ALLOWANCE_AGENT` names the agent, if the key is bound to none.
"""

import os
import sys
from pathlib import Path

from allowance_client import Allowance, errors, new_idempotency_key

REASON = "Forecast for Oslo"


def main(service: str, amount: str, key_file: Path) -> int:
    with Allowance(
        os.environ["ALLOWANCE_URL"], os.environ["ALLOWANCE_API_KEY"], os.environ.get("ALLOWANCE_AGENT")
    ) as allowance:
        evaluation = allowance.evaluate(service=service, amount=amount, reason=REASON)
        print(f"asked: {evaluation.result} by {evaluation.rule}")
        try:
            payment = allowance.pay(service=service, amount=amount, reason=REASON, idempotency_key=keep_key(key_file))
        except errors.BudgetExceeded as refusal:
            print(f"refused: {refusal}\nallowed at: {refusal.allowed_at}")
            return 1
        print(f"{'found' if payment.is_replay else 'paid'}: {payment.id}, {payment.amount} {payment.asset}")
        state = allowance.wait_settled(payment.id)
        print(f"settled: {state.final_tx}")
    return 0


def keep_key(file: Path) -> str:
    """Make the purchase's key and write it down, before anything is paid; a later run reads it again."""
    if not file.exists():
        file.write_text(new_idempotency_key())
    return file.read_text()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
