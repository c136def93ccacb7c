"""Every way in which people change something, and what the audit then has of it."""

# What a command does that is in no audit, as it changes nothing of this installation.
READS = "It reads, and changes nothing."
COMPOSES = "It plays on an installation of its own, through the operations of the others."

# Each command with the actions that it leaves in the audit.
COMMANDS: dict[str, set[str] | str] = {
    "adjust_balance": {"agent.adjusted"},
    "approve_service": {"service.approved"},
    "book_outflow": {"outflow.booked"},
    "catch_up": {"chain.caught_up"},
    "chains": READS,
    "clocks": {"agent.clock_repaired"},
    "create_agent": {"agent.created", "agent.funded"},
    "create_api_key": {"api_key.issued"},
    "demo": COMPOSES,
    "deploy_escrow": {"escrow.deployed"},
    "deposit": "It pays into an escrow of a test network, as a customer does: deposits say from whom they are.",
    "disable_service": {"service.disabled"},
    "fund_agent": {"agent.funded"},
    "gas": READS,
    "pause_agent": {"agent.paused"},
    "reconcile": "It compares, as the workers do every minute; if it stops a chain, the audit has that.",
    "reject_service": {"service.rejected"},
    "relayers": {"relayer.disabled", "relayer.enabled"},
    "reopen_service": {"service.reopened"},
    "resume_agent": {"agent.resumed"},
    "revoke_api_key": {"api_key.revoked"},
    "rotate_api_key": {"api_key.issued", "api_key.rotated"},
    "rotate_keys": {"escrow.rotation_begun", "escrow.rotated", "chain.stopped"},
    "set_policy": {"policy.changed"},
    "start_chain": {"chain.started"},
    "start_signing": {"signer.started"},
    "stop_chain": {"chain.stopped"},
    "stop_signing": {"signer.stopped"},
    "verify_log": READS,
    "verify_receipt": READS,
    "webhooks": READS,
    "withdraw_funds": {"withdrawal.booked", "withdrawal.prepared", "withdrawal.cancelled"},
}

# Each action of the console, by the model whose rows it is about.
ACTIONS: dict[str, set[str]] = {
    "backoffice.alarm acknowledge": {"alarm.acknowledged"},
    "payments.chainstate start_signing": {"chain.started"},
    "payments.deposit credit": {"deposit.credited"},
    "payments.outflow book": {"outflow.booked"},
    "payments.withdrawal cancel": {"withdrawal.cancelled"},
    "policy.agent adjust": {"agent.adjusted"},
    "policy.agent pause": {"agent.paused"},
    "policy.agent resume": {"agent.resumed"},
    "policy.agent withdraw": {"withdrawal.booked"},
    "policy.apikey revoke": {"api_key.revoked"},
    "policy.apikey rotate": {"api_key.issued", "api_key.rotated"},
    "services.service approve": {"service.approved"},
    "services.service disable": {"service.disabled"},
    "services.service enable": {"service.enabled"},
    "services.service reject": {"service.rejected"},
    "services.service reopen": {"service.reopened"},
    "services.webhookdelivery send_again": {"delivery.sent_again"},
    "services.webhookendpoint enable": {"webhook.enabled"},
    "services.webhookendpoint replay": {"webhook.replayed"},
    "services.webhookendpoint rotate": {"webhook.secret_rotated"},
    "services.webhookendpoint send_test": {"webhook.tested"},
    "services.webhookendpoint show_secret": {"webhook.secret_shown"},
}
