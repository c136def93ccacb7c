r"""Fetch a page that costs something (x402), and pay for it once.

    ALLOWANCE_URL=http://127.0.0.1:8000 ALLOWANCE_API_KEY=alw_… \
        python fetch.py reports https://reports.example/may 500000 may.key

The key is bound to an agent. The payee is the service `reports`, approved with the address that its 402s name; 500000
base units, half a USDC, are the most to be paid. Run it again with the same file, after a crash for example: nothing is
paid a second time.
"""

import os
import sys
from pathlib import Path

import httpx
from allowance_client import Allowance, PayingTransport, new_idempotency_key


def main(service: str, url: str, most_units: int, key_file: Path) -> int:
    with Allowance(os.environ["ALLOWANCE_URL"], os.environ["ALLOWANCE_API_KEY"]) as allowance:
        transport = PayingTransport(allowance, {url: service}, most_units=most_units)
        with httpx.Client(transport=transport, timeout=60) as http:
            page = http.get(url, extensions={"idempotency_key": keep_key(key_file)})
    payment = page.extensions.get("allowance_payment")
    print(
        f"{page.status_code}, {f'paid: {payment.id}, {payment.amount} {payment.asset}' if payment else 'nothing paid'}"
    )
    print(page.text)
    return 0 if page.is_success else 1


def keep_key(file: Path) -> str:
    """Make the purchase's key and write it down, before anything is paid; a later run reads it again."""
    if not file.exists():
        file.write_text(new_idempotency_key())
    return file.read_text()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])))
