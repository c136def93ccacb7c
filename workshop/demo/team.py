"""Share a budget: what two agents pay together fits the limits of the team above them."""

from functools import partial

from policy.limits import under
from policy.operations import pause_agent, resume_agent, set_policy
from workshop.demo.promises import Order, Refusal
from workshop.demo.seed import STAFF
from workshop.demo.steps import Steps

HOTELS, TEAM = "agent-hotels", "team-trips"


def share_a_budget(steps: Steps, team: str, pays: Order, asks: Order) -> None:
    """Put two agents under a team that may spend 5 in 24 hours: one of them pays, the other asks for too much.

    While the team is paused, so are both.
    """
    for agent in (pays.agent, asks.agent):
        steps.act_as_staff(f"puts {agent} under {team}", partial(_put_under, team, agent))
    steps.pay(pays)
    shared = {"limit": "5.00", "spent": pays.amount, "requested": asks.amount, "remaining": "4.00"}
    of_team = f"Budget of {team}, above this one: "
    too_much = Refusal(422, "budget_exceeded", "under_daily_limit", shared, waits=True, says=of_team)
    steps.pay_refused(f"{asks.agent} asks for more than its team has left", asks, too_much)
    steps.act_as_staff(f"pauses {team}", lambda: pause_agent(team, by=STAFF))
    paused = Refusal(403, "agent_paused", "agent_active", says=of_team)
    steps.pay_refused("Who is under a paused team pays nothing", pays, paused)
    steps.act_as_staff(f"resumes {team}", lambda: resume_agent(team, by=STAFF))


def _put_under(team: str, agent: str) -> None:
    set_policy(agent, change=lambda present: under(team, present), by=STAFF)
