"""A scenario in which others make as much trouble as they can, and agents pay meanwhile."""

from tests.overspend.answers import TOO_MANY
from tests.overspend.slow_sockets import SlowSockets
from tests.overspend.stage import Stage
from tests.support.factories import make_api_key

# An atom of the asset: the least that a payment can be.
_DUST = "0.000001"
_DECIDED = (201, 422)


def floods(stage: Stage) -> None:
    """Flood with refusals, with dust and with slow sockets, and pay meanwhile."""
    flooder = stage.payer(day="1", wanted="0", is_flooder=True)
    dust_count = stage.world.size(150, 20)
    dusty = stage.payer(day=f"0.{dust_count:06}", wanted=f"0.{dust_count:06}")
    payers = [stage.payer(day="20", wanted="20") for _ in range(stage.world.size(4, 2))]
    urls = stage.world.fleet.urls
    with SlowSockets(urls, stage.world.size(200, 50), make_api_key()) as slow:
        refusals = stage.storm([flooder.shot("2") for _ in range(stage.world.size(3000, 300))])
        dust = stage.storm([dusty.shot(_DUST) for _ in range(2 * dust_count)])
        payments = stage.storm([payer.shot() for payer in payers for _ in range(stage.world.size(60, 30))])
        is_served = all(answer.status in _DECIDED for answer in [*payments])
        stage.expect(is_served, "A payment had to wait for the floods to end.")
        for flood in (dust, refusals):
            list(flood)
        stage.expect(slow.sent, "The slow sockets sent nothing.")
    is_held_back = any(told.status == TOO_MANY for told in stage.told if told.agent == flooder.account.agent)
    stage.expect(is_held_back or stage.world.is_short, "Nobody held the flood of refusals back.")
    stage.insist()
    stage.repeat(stage.world.size(100, 20))
