"""Methods about accounts, at a commitment."""

from collections.abc import Mapping
from typing import Any

from solders.account import Account

from workshop.localnet.jsonrpc.errors import InvalidParams, InvalidRequest
from workshop.localnet.jsonrpc.protocol import Method
from workshop.localnet.solana import params
from workshop.localnet.solana.encoding import account_json, encoded
from workshop.localnet.solana.methods.contexts import in_context
from workshop.localnet.solana.node import Node
from workshop.localnet.solana.tokens import decimals, token_account, ui_amount

_MAX_ACCOUNTS = 100
_MAX_BASE58_BYTES = 128


def _account(node: Node, address: Any, config: Any = None) -> dict[str, Any]:
    bank = params.bank(node, config)
    account = node.chain.account(params.pubkey(address), bank)
    return in_context(bank, shown(account, params.config(config), default="binary"))


def _accounts(node: Node, addresses: Any, config: Any = None) -> dict[str, Any]:
    bank, options = params.bank(node, config), params.config(config)
    wanted = [params.pubkey(one) for one in params.listed(addresses, most=_MAX_ACCOUNTS)]
    found = [shown(node.chain.account(one, bank), options, default="base64") for one in wanted]
    return in_context(bank, found)


def _balance(node: Node, address: Any, config: Any = None) -> dict[str, Any]:
    bank = params.bank(node, config)
    account = node.chain.account(params.pubkey(address), bank)
    return in_context(bank, 0 if account is None else account.lamports)


def _token_balance(node: Node, address: Any, config: Any = None) -> dict[str, Any]:
    bank = params.bank(node, config)
    account = node.chain.account(params.pubkey(address), bank)
    token = token_account(account)
    if account is None:
        raise InvalidParams("Invalid param: could not find account")
    if token is None:
        raise InvalidParams("Invalid param: not a Token account")
    mint = node.chain.account(token.mint, bank)
    return in_context(bank, ui_amount(token.amount, decimals(mint)))


def shown(account: Account | None, options: dict[str, Any], *, default: str) -> dict[str, Any] | None:
    """Return an account in the encoding, and the part of its data, that a configuration asks for."""
    name = params.encoding(options, default=default, known=("binary", "base58", "base64"))
    if account is None:
        return None
    data, part = bytes(account.data), params.config(options.get("dataSlice"))
    if part:
        first = params.whole_number(part.get("offset"))
        data = data[first : first + params.whole_number(part.get("length"))]
    if name != "base64" and len(data) > _MAX_BASE58_BYTES:
        raise InvalidRequest(
            f"Encoded binary (base 58) data should be less than {_MAX_BASE58_BYTES} bytes, please use Base64 encoding."
        )
    # The oldest encoding is base58 that does not say so.
    text = encoded(data, "base58")[0] if name == "binary" else encoded(data, name)
    return account_json(account, text)


METHODS: Mapping[str, Method] = {
    "getAccountInfo": _account,
    "getMultipleAccounts": _accounts,
    "getBalance": _balance,
    "getTokenAccountBalance": _token_balance,
}
