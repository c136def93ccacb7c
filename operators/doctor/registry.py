"""The table of all checks, in the order in which they are carried out. docs/operate/doctor.md has the same."""

from foundation.silent_processes import find_silent_processes
from operators.doctor import (
    books,
    broker,
    clocks,
    configuration,
    database,
    database_rights,
    database_sessions,
    egress,
    escrows,
    gas,
    keys,
    nodes,
    people,
)
from operators.doctor.diagnoses import Check, Part, found_by
from payments.findings.chains import find_lying_nodes, find_troubles_of_chains
from payments.findings.money import find_overdrawn_pools, find_troubles_of_comparisons, find_unknown_outflows
from policy.findings import find_signer_out_of_service
from services.findings import find_failing_webhooks

_DATABASE, _TABLES = frozenset({Part.DATABASE}), frozenset({Part.DATABASE, Part.TABLES})
_REDIS = frozenset({Part.REDIS})

CHECKS = (
    Check("configuration", "variables that are missing, malformed or unknown", configuration.find_faulty_variables),
    Check("configuration", "names that resemble a variable's", configuration.find_misspelt_names),
    Check("configuration", "variables that do nothing", configuration.find_useless_variables),
    Check("configuration", "files of variables that others can read", configuration.find_open_env_files),
    Check("configuration", "protection that is switched off", configuration.find_unprotected),
    Check("configuration", "what `check --deploy` warns of", configuration.find_release_warnings),
    Check("configuration", "keys that are equal to each other", keys.find_equal_keys),
    Check("configuration", "keys that are known or can be guessed", keys.find_known_keys),
    Check("database", "whether it answers", database.find_unreachable_database, gives=Part.DATABASE),
    Check("database", "whether it takes writes", database.find_standby, _DATABASE),
    Check("database", "its encoding", database.find_wrong_encoding, _DATABASE),
    Check("database", "its migrations", database.find_unapplied_migrations, _DATABASE, gives=Part.TABLES),
    Check("database", "the rights of our role", database_rights.find_missing_rights, _DATABASE),
    Check("database", "its functions and triggers", database_rights.find_changed_functions, _TABLES),
    Check("database", "whether commits are on disk", database.find_unsafe_commits, _DATABASE),
    Check("database", "limits of time that end commits", database.find_deadly_timeouts, _DATABASE),
    Check("database", "the number of connections", database_sessions.find_few_connections, _DATABASE),
    Check("database", "a pooler in between", database_sessions.find_forgetful_pooler, _DATABASE, asks_others=True),
    Check("database", "TLS on the way there", database_sessions.find_open_connection, _DATABASE, asks_others=True),
    Check("database", "room on its disk", database_sessions.find_full_disk, _DATABASE),
    Check("database", "its replica", database_sessions.find_useless_replica, _DATABASE, asks_others=True),
    Check("Redis", "whether it answers", broker.find_unreachable_redis, gives=Part.REDIS),
    Check("Redis", "its version, policy, memory and disk", broker.find_unfit_redis, _REDIS),
    Check("Redis", "TLS and password on the way there", broker.find_open_redis, _REDIS),
    Check("Redis", "tasks that wait", broker.find_long_queues, _REDIS),
    Check("clocks", "the database's clock", clocks.find_database_clock, _DATABASE),
    Check("clocks", "Redis' clock", clocks.find_redis_clock, _REDIS),
    Check("clocks", "entries dated in the future", clocks.find_agents_ahead, _TABLES),
    Check(
        "processes", "signs of life",
        found_by(find_silent_processes, subject="processes", fine="Each type gives signs of life, and beat runs once."),
        _REDIS,
    ),
    Check("processes", "versions", broker.find_mixed_versions, _REDIS),
    Check("chains", "TLS on the ways to nodes", nodes.find_open_ways),
    Check("chains", "each node: chain, newest and final block, state", nodes.find_faulty_nodes),
    Check("chains", "whether nodes agree", nodes.find_disagreeing_nodes),
    Check(
        "chains", "nodes that contradicted the others lately",
        found_by(find_lying_nodes, subject="contradictions", fine="No worker has noticed any within the last hour."),
        _TABLES,
    ),
    Check("chains", "escrows: owner, roles, tokens, caps", escrows.find_escrow_differences, _TABLES, asks_others=True),
    Check("chains", "gas money, and how long it lasts", gas.find_gas_money, _TABLES, asks_others=True),
    Check(
        "chains", "whether signing goes on",
        found_by(
            find_signer_out_of_service, find_troubles_of_chains,
            subject="signing", fine="It goes on, and each chain is observed.",
        ),
        _TABLES,
    ),
    Check("webhooks", "the way to payees' receivers", egress.find_closed_ways_to_payees, _TABLES, asks_others=True),
    Check(
        "webhooks", "deliveries that are overdue",
        found_by(find_failing_webhooks, subject="deliveries", fine="None is overdue, and no endpoint fails."),
        _TABLES,
    ),
    Check("notices", "the mail server", egress.find_deaf_mail_server),
    Check("notices", "the URLs of channels", egress.find_deaf_channels),
    Check("notices", "roles that nobody tells", egress.find_untold_roles, _TABLES),
    Check("staff", "administrators", people.find_missing_administrators, _TABLES),
    Check("staff", "accounts in another person's hand", people.find_accounts_in_hand, _TABLES),
    Check("staff", "second factors", people.find_missing_second_factors, _TABLES),
    Check("books", "keys that signed the log", books.find_unpublished_keys, _TABLES),
    Check(
        "books", "comparisons with the chains",
        found_by(find_troubles_of_comparisons, subject="comparisons", fine="Each is new, and nothing is missing."),
        _TABLES,
    ),
    Check(
        "books", "promises beside holdings",
        found_by(find_overdrawn_pools, subject="promises", fine="No more is promised than all escrows hold."),
        _TABLES,
    ),
    Check(
        "books", "what left the escrows",
        found_by(find_unknown_outflows, subject="outflows", fine="Each outflow is booked."),
        _TABLES,
    ),
    Check("books", "open alarms", books.find_open_alarms, _TABLES),
)  # fmt: skip
AREAS = tuple(dict.fromkeys(check.area for check in CHECKS))
