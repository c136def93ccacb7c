"""The owner of the escrow, and whoever else sends transactions of their own on the company's chain."""

from collections.abc import Sequence
from typing import Any

from eth_account import Account
from eth_account.hdaccount import key_from_seed
from eth_account.signers.local import LocalAccount

from tests.runbooks.installation import Company
from tests.runbooks.patience import wait_for
from tests.support.evm_escrow import call
from workshop.localnet.evm import CHAIN_ID

# What they pay for gas, whatever others pay: so what is left of an account is known beforehand.
GAS_PRICE_WEI = 10**10


def owner(company: Company) -> LocalAccount:
    """Give the account that deployed the escrow and owns it, and has the chain's coin."""
    account: LocalAccount = Account.from_key(company.servers.folder.keys()["EVM_DEPLOYER_KEY"])
    return account


def relayers(company: Company) -> Sequence[LocalAccount]:
    seed = bytes.fromhex(company.this.variables["RELAYER_SEED"])
    count = int(company.this.variables["RELAYERS_PER_CHAIN"])
    return [Account.from_key(key_from_seed(seed, f"m/44'/60'/0'/0/{number}")) for number in range(count)]


def as_owner(company: Company, signature: str, *arguments: Any) -> str:
    """Have the owner call the escrow; returns the transaction."""
    return send(company, owner(company), escrow(company), data=call(signature, *arguments))


def escrow(company: Company) -> str:
    return company.this.variables["CHAIN_EVM_LOCALNET_ESCROW"]


def token(company: Company) -> str:
    tokens = dict(pair.split("=") for pair in company.this.variables["CHAIN_EVM_LOCALNET_TOKENS"].split(","))
    return tokens["USDC"]


def balance_of(company: Company, address: str) -> int:
    """Read what somebody has on the chain, in base units of USDC."""
    question = {"to": token(company), "data": call("balanceOf(address)", address)}
    return int(company.servers.rpc("eth_call", question, "latest"), 16)


def send(
    company: Company, sender: LocalAccount, to: str, *, data: str = "0x", value_wei: int = 0, gas: int = 250_000
) -> str:
    """Send a transaction and wait until a block has it; returns its id."""
    rpc = company.servers.rpc
    transaction: dict[str, Any] = {
        "chainId": CHAIN_ID,
        "nonce": int(rpc("eth_getTransactionCount", sender.address, "pending"), 16),
        "gas": gas,
        "maxFeePerGas": GAS_PRICE_WEI,
        "maxPriorityFeePerGas": GAS_PRICE_WEI,
        "to": to,
        "value": value_wei,
        "data": data,
    }
    signed = sender.sign_transaction(transaction)
    tx = str(rpc("eth_sendRawTransaction", "0x" + signed.raw_transaction.hex()))
    receipt = wait_for(lambda: rpc("eth_getTransactionReceipt", tx), f"{tx} is in a block")
    assert receipt["status"] == "0x1"
    return tx


def is_searched(company: Company, tx: str) -> bool:
    """Tell whether the search of the escrow's history, and so every comparison, has passed a transaction."""
    block_number = int(company.servers.rpc("eth_getTransactionReceipt", tx)["blockNumber"], 16)
    return bool(company.sql(f"SELECT FROM payments_depositcursor WHERE block_number >= {block_number}"))
