"""Where each table is, once the database is distributed. What is not here is local: on the coordinator alone."""

# The rows of agents, and of what works for them: each row is of a group, and all of a group are on one node.
OF_GROUPS = (
    "policy_agent",
    "policy_policyrevision",
    "policy_shadowrevision",
    "ledger_logentry",
    "ledger_balancemovement",
    "ledger_hold",
    "ledger_levelpayment",
    "ledger_tally",
    "ledger_tallymark",
    "ledger_clockrepair",
    "payments_payment",
    "payments_leg",
    "payments_settlement",
    "payments_transition",
    "payments_agentgas",
    "payments_relayer",
    "payments_payeestate",
    "services_webhookevent",
    "services_webhookendpoint",
    "services_webhookdelivery",
    "services_webhookattempt",
)
# What people change, and a payment reads: every node has all of it, and a change is there on all of them at once.
ON_EVERY_NODE = (
    "policy_apikey",
    "policy_policytemplate",
    "services_service",
    "services_registrationrecord",
    "services_servicedecision",
    "services_webhooksecret",
    "payments_installation",
    "payments_outflow",
)
# What can stop all payments: the coordinator has it, and each group a copy, so that a node that is away keeps nobody
# from stopping the others (foundation/groups/copies.py). By the key of each.
COPIED = {"payments_chainstate": "chain", "policy_signerswitch": "id"}
# The functions that the money path calls. In a group they read what is on every node without asking Citus.
ENTRIES = ("payments_lock_and_read_11", "payments_record_batch")
