"""A thief who has the relayers' seed and nothing else of ours: a process of its own, on a chain that everybody sees.

    RELAYER_SEED=… NODE_URL=… python -m tests.attacks.thief use-nonce 0 17
    RELAYER_SEED=… NODE_URL=… python -m tests.attacks.thief submit 99 0x…calldata ESCROW

Prints the id of the transaction that it sent.
"""

import os
import sys
from typing import Any

import requests
from eth_account import Account
from eth_account.hdaccount import key_from_seed

_GAS = 300_000
_GWEI = 10**9


def main(what: str, number: str, *rest: str) -> str:
    account = Account.from_key(key_from_seed(bytes.fromhex(os.environ["RELAYER_SEED"]), f"m/44'/60'/0'/0/{number}"))
    if what == "use-nonce":
        return _send(account, nonce=int(rest[0]), to=account.address, data="0x")
    data, escrow = rest
    nonce = int(_ask("eth_getTransactionCount", account.address, "pending"), 16)
    return _send(account, nonce=nonce, to=escrow, data=data)


def _send(account: Any, *, nonce: int, to: str, data: str) -> str:
    """Send it with a fee that goes before everybody else's."""
    fees = {"gas": _GAS, "maxFeePerGas": 900 * _GWEI, "maxPriorityFeePerGas": 100 * _GWEI}
    chain_id = int(_ask("eth_chainId"), 16)
    signed = account.sign_transaction({"chainId": chain_id, "nonce": nonce, "to": to, "data": data, "value": 0, **fees})
    return str(_ask("eth_sendRawTransaction", "0x" + signed.raw_transaction.hex()))


def _ask(method: str, *params: Any) -> Any:
    body: Any = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = requests.post(os.environ["NODE_URL"], json=body, timeout=30).json()
    if "error" in answer:
        sys.exit(answer["error"]["message"])
    return answer["result"]


if __name__ == "__main__":
    sys.stdout.write(main(*sys.argv[1:]) + "\n")
