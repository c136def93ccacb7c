"""Spread the tables over several servers, by groups of agents: Citus. `foundation/groups.py` says what that is."""
