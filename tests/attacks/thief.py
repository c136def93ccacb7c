"""A thief who has one key of ours and nothing else: a process of its own, on a chain that everybody sees.

    RELAYER_SEED=… NODE_URL=… python -m tests.attacks.thief use-nonce 0 17
    RELAYER_SEED=… NODE_URL=… python -m tests.attacks.thief submit 99 0x…calldata ESCROW
    RELAYER_SEED=… NODE_URL=… python -m tests.attacks.thief submit-both 99 0x…calldata 0x…calldata ESCROW
    STOLEN_KEY=… NODE_URL=… python -m tests.attacks.thief submit - 0x…calldata ESCROW
    STOLEN_KEY=… NODE_URL=… python -m tests.attacks.thief run-code - CONTRACT

GAS in the environment is the gas limit. Prints the id of the transaction that it sent.
"""

import os
import sys
from typing import Any

import requests
from eth_account import Account
from eth_account.hdaccount import key_from_seed

_GAS = int(os.environ.get("GAS", "1_000_000"))
_GWEI = 10**9


def main(what: str, number: str, *rest: str) -> str:
    account = Account.from_key(os.environ.get("STOLEN_KEY") or _derive(number))
    if what == "use-nonce":
        return _send(account, nonce=int(rest[0]), to=account.address, data="0x")
    *calls, escrow = rest
    nonce = int(_ask("eth_getTransactionCount", account.address, "pending"), 16)
    if what == "submit-both":
        return _send_both(account, nonce, *calls, escrow=escrow)
    if what == "run-code":
        return _send(
            account, nonce=nonce, to=account.address, data="0x", authorizationList=[_leave(account, nonce, escrow)]
        )
    return _send(account, nonce=nonce, to=escrow, data=calls[0])


def _send_both(account: Any, nonce: int, first: str, second: str, *, escrow: str) -> str:
    """Make two calls in one transaction: the account runs code (EIP-7702), which passes on either half of the data."""
    half = "3660011c"  # CALLDATASIZE 1 SHR
    code = "".join(
        # CALLDATACOPY of a half, and a CALL of the escrow with it
        f"{half}{offset}600037" + f"60006000{half}60006000" + f"73{escrow[2:]}5af150"
        for offset in ("6000", half)
    )
    creation = f"0x60{len(code) // 2:02x}80600b6000396000f3{code}"
    made = _wait(_send(account, nonce=nonce, data=creation))["contractAddress"]
    both = {"data": first + second[2:], "authorizationList": [_leave(account, nonce + 1, made)], "gas": 3 * _GAS}
    return _send(account, nonce=nonce + 1, to=account.address, **both)


def _leave(account: Any, nonce: int, contract: str) -> Any:
    """Leave an account to a contract's code, by the transaction of this nonce."""
    chain_id = int(_ask("eth_chainId"), 16)
    return account.sign_authorization({"chainId": chain_id, "address": contract, "nonce": nonce + 1})


def _derive(number: str) -> bytes:
    return key_from_seed(bytes.fromhex(os.environ["RELAYER_SEED"]), f"m/44'/60'/0'/0/{number}")


def _wait(tx: str) -> Any:
    while (receipt := _ask("eth_getTransactionReceipt", tx)) is None:
        _ask("evm_mine")
    return receipt


def _send(account: Any, **call: Any) -> str:
    """Send it with a fee that goes before everybody else's."""
    fees = {"gas": _GAS, "maxFeePerGas": 900 * _GWEI, "maxPriorityFeePerGas": 100 * _GWEI}
    chain_id = int(_ask("eth_chainId"), 16)
    signed = account.sign_transaction({"chainId": chain_id, "value": 0, **fees, **call})
    return str(_ask("eth_sendRawTransaction", "0x" + signed.raw_transaction.hex()))


def _ask(method: str, *params: Any) -> Any:
    body: Any = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = requests.post(os.environ["NODE_URL"], json=body, timeout=30).json()
    if "error" in answer:
        sys.exit(answer["error"]["message"])
    return answer["result"]


if __name__ == "__main__":
    sys.stdout.write(main(*sys.argv[1:]) + "\n")
