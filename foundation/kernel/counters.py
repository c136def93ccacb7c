"""All that processes count, beside what `/metrics` reads from the database. docs/operate/monitoring.md lists it."""

from foundation.kernel.counting import Counter, Histogram

# What a caller waits for, what a payee waits for, and what a chain takes. In seconds.
_ANSWER_S = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_DELIVERY_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 3600, 86_400)
_SETTLEMENT_S = (1, 2.5, 5, 10, 20, 30, 60, 120, 300, 900, 3600)

HTTP_REQUESTS = Counter("http_requests", "Requests that were answered.", ["method", "route", "status"])
HTTP_REQUEST_SECONDS = Histogram(
    "http_request_seconds", "From a request that is complete to its answer.", ["method", "route"], bounds=_ANSWER_S
)
DECISIONS = Counter("decisions", "Decisions that were logged, by the rule that named them.", ["result", "rule"])
PAYMENTS_UNAVAILABLE = Counter("payments_unavailable", "Payment requests that got 503, logged or not.", [])
DECISION_SECONDS = Histogram(
    "decision_seconds", "What a payment request waits until it is decided and committed.", bounds=_ANSWER_S
)
BATCH_PAYMENTS = Histogram(
    "batch_payments", "Payment requests that were decided in one transaction.", bounds=(1, 2, 4, 8, 16, 32)
)
SETTLEMENT_CHANGES = Counter("settlement_changes", "Transactions that came to a state.", ["chain", "state"])
PAYMENTS_ENDED = Counter("payments_ended", "Payments that were settled or failed.", ["chain", "status"])
SETTLEMENT_SECONDS = Histogram(
    "settlement_seconds", "From a payment's approval until it is settled.", ["chain"], bounds=_SETTLEMENT_S
)
RPC_REQUESTS = Counter("rpc_requests", "Requests to a chain's nodes.", ["host"])
RPC_FAILURES = Counter("rpc_failures", "Requests to a chain's nodes without a usable answer.", ["host"])
WEBHOOK_ATTEMPTS = Counter("webhook_attempts", "Attempts to tell a payee, by their outcome.", ["outcome"])
WEBHOOK_ATTEMPT_SECONDS = Histogram("webhook_attempt_seconds", "How long an attempt took.", bounds=_ANSWER_S)
WEBHOOK_DELIVERY_SECONDS = Histogram(
    "webhook_delivery_seconds", "From an event until its payee was told.", bounds=_DELIVERY_S
)

COUNTERS: tuple[Counter, ...] = tuple(one for one in list(globals().values()) if isinstance(one, Counter))
