"""The port to a chain, in terms that hold for every chain: values, and one small protocol for each concern."""

from chains.port.adapter import ChainAdapter
from chains.port.authorizing import AuthorizationTerms, SignedAuthorization, TransferAuthorizer
from chains.port.escrow import DepositEvent, EscrowSearch, MadeDeposit, OutflowEvent, VoidEvent
from chains.port.following import Broadcaster, Follower, Prover
from chains.port.node_health import Contradiction
from chains.port.observing import EscrowReader, Inspector, Observer, PayeeObserver
from chains.port.preparing import NonceAdapter, Obstacle, PaymentPlan, Preparer
from chains.port.proof import NOTHING_PROVEN, NonceProof, PaymentProof, Proof
from chains.port.signer import PaymentSigner, SignerUnavailable
from chains.port.transactions import (
    AuthorizedBy,
    ChainUnavailable,
    Finality,
    IncludedPayment,
    Inclusion,
    NonceState,
    Observation,
    Order,
    PaymentCosts,
    RelayerState,
    SignedTransaction,
    Submitter,
    TransactionQuery,
)

__all__ = [
    "NOTHING_PROVEN",
    "AuthorizationTerms",
    "AuthorizedBy",
    "Broadcaster",
    "ChainAdapter",
    "ChainUnavailable",
    "Contradiction",
    "DepositEvent",
    "EscrowReader",
    "EscrowSearch",
    "Finality",
    "Follower",
    "IncludedPayment",
    "Inclusion",
    "Inspector",
    "MadeDeposit",
    "NonceAdapter",
    "NonceProof",
    "NonceState",
    "Observation",
    "Observer",
    "Obstacle",
    "Order",
    "OutflowEvent",
    "PayeeObserver",
    "PaymentCosts",
    "PaymentPlan",
    "PaymentProof",
    "PaymentSigner",
    "Preparer",
    "Proof",
    "Prover",
    "RelayerState",
    "SignedAuthorization",
    "SignedTransaction",
    "SignerUnavailable",
    "Submitter",
    "TransactionQuery",
    "TransferAuthorizer",
    "VoidEvent",
]
