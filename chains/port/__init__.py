"""The port to a chain, in terms that hold for every chain: values, and one small protocol for each concern."""

from chains.port.adapter import ChainAdapter
from chains.port.authorizing import AuthorizationTerms, SignedAuthorization, TransferAuthorizer
from chains.port.escrow import DepositEvent, EscrowSearch, MadeDeposit, OutflowEvent, VoidEvent
from chains.port.fate import Fate, NonceFate, PaymentFate
from chains.port.following import Broadcaster, Follower, Prover
from chains.port.gas import GasCost, PaymentCosts, RelayerState
from chains.port.node_health import Contradiction
from chains.port.observing import EscrowReader, Inspector, Observer, PayeeObserver
from chains.port.preparing import NonceAdapter, Obstacle, PaymentPlan, Preparer, TransactionPlan
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
    SignedTransaction,
    Submitter,
    TransactionQuery,
)

__all__ = [
    "AuthorizationTerms",
    "AuthorizedBy",
    "Broadcaster",
    "ChainAdapter",
    "ChainUnavailable",
    "Contradiction",
    "DepositEvent",
    "EscrowReader",
    "EscrowSearch",
    "Fate",
    "Finality",
    "Follower",
    "GasCost",
    "IncludedPayment",
    "Inclusion",
    "Inspector",
    "MadeDeposit",
    "NonceAdapter",
    "NonceFate",
    "NonceState",
    "Observation",
    "Observer",
    "Obstacle",
    "Order",
    "OutflowEvent",
    "PayeeObserver",
    "PaymentCosts",
    "PaymentFate",
    "PaymentPlan",
    "PaymentSigner",
    "Preparer",
    "Prover",
    "RelayerState",
    "SignedAuthorization",
    "SignedTransaction",
    "SignerUnavailable",
    "Submitter",
    "TransactionPlan",
    "TransactionQuery",
    "TransferAuthorizer",
    "VoidEvent",
]
