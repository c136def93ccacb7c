"""The errors of a Solana node, with its codes and words (agave: rpc-client-api/src/custom_error.rs)."""

from typing import Any

from workshop.localnet.jsonrpc.errors import RpcError


class PreflightFailure(RpcError):
    """A transaction would fail: `data` is what its simulation gave."""

    code = -32002


class SignatureVerificationFailure(RpcError):
    """A signature is missing or wrong."""

    code = -32003


class BlockNotAvailable(RpcError):
    """There is no block of that slot yet."""

    code = -32004


class SlotSkipped(RpcError):
    """The slot has no block and never will."""

    code = -32007


class UnsupportedTransactionVersion(RpcError):
    """The caller did not say that it understands this version."""

    code = -32015


class MinContextSlotNotReached(RpcError):
    """The node has not seen the slot that the caller has seen."""

    code = -32016


# What a node says where its error's name is not the sentence.
_TRANSACTION_ERRORS = {
    "AccountNotFound": "Attempt to debit an account but found no record of a prior credit.",
    "AlreadyProcessed": "This transaction has already been processed",
    "BlockhashNotFound": "Blockhash not found",
    "InsufficientFundsForFee": "Insufficient funds for fee",
    "InvalidAccountForFee": "This account may not be used to pay transaction fees",
    "InvalidProgramForExecution": "This program may not be used for executing instructions",
    "ProgramAccountNotFound": "Attempt to load a program that does not exist",
    "SanitizeFailure": "Transaction failed to sanitize accounts offsets correctly",
    "SignatureFailure": "Transaction did not pass signature verification",
}


def in_words(error: Any) -> str:
    """Return the sentence for a transaction's error, which is in the chain's JSON."""
    match error:
        case {"InstructionError": [index, {"Custom": number}]}:
            return f"Error processing Instruction {index}: custom program error: {number:#x}"
        case {"InstructionError": [index, reason]}:
            return f"Error processing Instruction {index}: {reason}"
        case {"InsufficientFundsForRent": {"account_index": index}}:
            return f"Transaction results in an account ({index}) with insufficient funds for rent"
        case _:
            return _TRANSACTION_ERRORS.get(str(error), str(error))
