"""A standby takes the place of a server that is lost for good, in the middle of a storm."""

import json
from collections import Counter

import pytest

from foundation import groups
from tests.distributed.storming import (
    agent_in_each_group,
    check_there,
    groups_on,
    shots_of,
    storm_while,
    strike_until_answered,
)
from tests.support.factories import make_api_key, make_service

pytestmark = pytest.mark.long(120)
LIMIT = 40


def test_a_standby_takes_the_place_of_a_lost_worker_with_all_that_was_answered(house, nodes):
    agents = agent_in_each_group(daily_limit=str(LIMIT), max_per_payment="1")
    service, key = make_service(), make_api_key()
    shots = [shot for agent in agents.values() for shot in shots_of(house, agent.pk, service.pk, key, 60)]
    nodes.follow("worker1", "standby1")

    def fail_over() -> None:
        nodes.kill("worker1")
        nodes.promote("standby1", in_place_of="worker1")

    answers = storm_while(shots, fail_over)
    again = strike_until_answered(shots)

    told = {one.index: json.loads(one.text)["id"] for one in answers if one.status == 201}
    assert {index: json.loads(again[index].text)["id"] for index in told} == told
    assert Counter(one.status for one in again.values()) == {201: LIMIT * len(agents), 422: 20 * len(agents)}
    assert len(groups_on(nodes, "standby1")) > 0
    for group, agent in agents.items():
        with groups.within(group):
            check_there(agent.pk)
