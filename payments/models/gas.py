"""What agents' transactions cost."""

from django.db import models

from policy.fields import AmountField
from policy.models import Agent


class AgentGas(models.Model):
    """What the transactions of an agent cost on a chain, in its coin, by the hour in which that became known."""

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, db_index=False)
    chain = models.CharField(max_length=64, help_text="CAIP-2.")
    hour = models.DateTimeField(help_text="Its beginning.")
    cost = AmountField()

    class Meta:
        constraints = (models.UniqueConstraint(name="gas_once_per_hour", fields=("agent", "chain", "hour")),)
        indexes = (models.Index(name="gas_by_hour", fields=("hour",)),)

    def __str__(self) -> str:
        return f"{self.agent_id} {self.chain} {self.hour}"
