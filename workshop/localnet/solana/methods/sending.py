"""Methods that send transactions, or try them."""

import secrets
from collections.abc import Mapping
from typing import Any

from solders.account import Account
from solders.instruction import Instruction
from solders.message import Message
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction
from spl.memo.constants import MEMO_PROGRAM_ID

from workshop.localnet.jsonrpc.errors import InvalidParams
from workshop.localnet.jsonrpc.protocol import Method
from workshop.localnet.solana import params
from workshop.localnet.solana.chain import MAX_AGE_BLOCKS, Bank, is_signed
from workshop.localnet.solana.encoding import inner_json, return_data_json
from workshop.localnet.solana.errors import PreflightFailure, SignatureVerificationFailure, in_words
from workshop.localnet.solana.machine import Outcome
from workshop.localnet.solana.methods.accounts import shown
from workshop.localnet.solana.methods.contexts import in_context
from workshop.localnet.solana.node import Node

_NOT_SIGNED = "Transaction signature verification failure"


def _send(node: Node, text: Any, config: Any = None) -> str:
    options = params.config(config)
    transaction = params.transaction(text, options, default="base58")
    bank = params.bank(node, options, name="preflightCommitment")
    if options.get("skipPreflight") is not True:
        if not is_signed(transaction):
            raise SignatureVerificationFailure(_NOT_SIGNED)
        result = _tried(node, transaction, bank, {})
        if result["err"] is not None:
            raise PreflightFailure(f"Transaction simulation failed: {in_words(result['err'])}", data=result)
    node.send(transaction)
    return str(transaction.signatures[0])


def _simulate(node: Node, text: Any, config: Any = None) -> dict[str, Any]:
    bank, options = params.bank(node, config), params.config(config)
    transaction = params.transaction(text, options, default="base58")
    if options.get("sigVerify") is True:
        if options.get("replaceRecentBlockhash") is True:
            raise InvalidParams("sigVerify may not be used with replaceRecentBlockhash")
        if not is_signed(transaction):
            raise SignatureVerificationFailure(_NOT_SIGNED)
    return in_context(bank, _tried(node, transaction, bank, options))


def _tried(node: Node, transaction: VersionedTransaction, bank: Bank, options: dict[str, Any]) -> dict[str, Any]:
    """Return what a transaction would do in the block after one."""
    replaces = options.get("replaceRecentBlockhash") is True
    included = node.chain.included_slot(transaction)
    is_known = node.chain.last_valid_height(transaction.message.recent_blockhash, bank) is not None
    outcome, error = None, None
    if not replaces and not is_known:
        error = "BlockhashNotFound"
    elif not replaces and included is not None and included <= bank.slot:
        error = "AlreadyProcessed"
    else:
        outcome = node.chain.simulate(transaction, bank)
        error = outcome.error
    newer = {"blockhash": str(node.chain.blockhash(bank.height)), "lastValidBlockHeight": bank.height + MAX_AGE_BLOCKS}
    return {
        "err": error,
        "logs": outcome.meta.logs() if outcome else [],
        "accounts": _accounts_after(node, bank, outcome, params.config(options.get("accounts"))),
        "unitsConsumed": outcome.meta.compute_units_consumed() if outcome else 0,
        "fee": outcome.meta.fee() if outcome else None,
        "innerInstructions": inner_json(outcome) if outcome and options.get("innerInstructions") is True else None,
        "returnData": return_data_json(outcome) if outcome else None,
        "replacementBlockhash": newer if replaces else None,
    }


def _accounts_after(node: Node, bank: Bank, outcome: Outcome | None, wanted: dict[str, Any]) -> list[Any] | None:
    if not wanted:
        return None
    addresses = [params.pubkey(one) for one in params.listed(wanted.get("addresses"), most=100)]
    if outcome is None or outcome.error is not None:
        return [None] * len(addresses)

    def after(address: Pubkey) -> Account | None:
        account = outcome.after.get(address) or node.chain.account(address, bank)
        return account if account and account.lamports else None

    return [shown(after(address), wanted, default="base64") for address in addresses]


def _airdrop(node: Node, address: Any, lamports: Any, config: Any = None) -> str:
    payer, bank = node.chain.airdropper, params.bank(node, config)
    wanted = TransferParams(
        from_pubkey=payer.pubkey(), to_pubkey=params.pubkey(address), lamports=params.whole_number(lamports)
    )
    # Without it two equal airdrops would be one transaction.
    memo = Instruction(MEMO_PROGRAM_ID, secrets.token_hex(8).encode(), [])
    message = Message.new_with_blockhash([transfer(wanted), memo], payer.pubkey(), node.chain.blockhash(bank.height))
    transaction = VersionedTransaction(message, [payer])
    node.send(transaction)
    return str(transaction.signatures[0])


METHODS: Mapping[str, Method] = {
    "sendTransaction": _send,
    "simulateTransaction": _simulate,
    "requestAirdrop": _airdrop,
}
