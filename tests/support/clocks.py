"""Clocks of the database that are wrong, and payments by them."""

from datetime import timedelta

from django.db import connection

from payments.reconciling.verification import Progress, verify_agent
from tests.support.factories import decide

SHADOW = """
    CREATE SCHEMA IF NOT EXISTS {schema};
    CREATE OR REPLACE FUNCTION {schema}.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
        AS $$ SELECT pg_catalog.clock_timestamp() + interval '{seconds} seconds' $$;
"""


def shadow_clock(schema: str, seconds: float) -> str:
    """Make a clock of the database that is ahead; returns the search path by which a session finds it."""
    with connection.cursor() as cursor:
        cursor.execute(SHADOW.format(schema=schema, seconds=seconds))
    return f"{schema},pg_catalog,public"  # without spaces, for PGOPTIONS


def pay_at(agent, service, at, amount="1", key=None):
    """Have a payment decided at any moment, also one to come; the chain's state counts as fresh."""
    return decide(agent, service, amount, at=at, key=key, max_chain_state_age=timedelta.max)


def problems_of(agent):
    return [found.problem for found in verify_agent(agent.id, Progress())]
