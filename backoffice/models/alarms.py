"""Alarms, each with what it is about, and the notices that tell people of them."""

from django.db import models
from django.db.models import Q
from django.utils.text import Truncator


class Alarm(models.Model):
    """A cause that somebody has to deal with: there is one row of it until it is over.

    It is open until its cause is gone (`cleared_at`), and over once that stayed so for a while (`is_over`): what comes
    back sooner is the same alarm again. `count` is how many things it is about, and `told_count` how many of them
    people were told of.
    """

    kind = models.CharField(max_length=64)
    subject = models.CharField(max_length=300, blank=True, help_text="Which of its kind; empty: there is one.")
    severity = models.CharField(max_length=8)
    sentence = models.TextField()
    count = models.PositiveIntegerField(default=1)
    url = models.CharField(max_length=700, help_text="The page of the console that deals with it.")
    permission = models.CharField(max_length=100, help_text="Who has it may see this.")
    found_by = models.CharField(max_length=100, help_text="What looks for such causes.")
    raised_at = models.DateTimeField()
    cleared_at = models.DateTimeField(null=True)
    is_over = models.BooleanField(default=False)
    acknowledged_by = models.CharField(max_length=150, blank=True)
    acknowledged_at = models.DateTimeField(null=True)
    acknowledgement = models.CharField(max_length=500, blank=True)
    told_at = models.DateTimeField(null=True, help_text="When people were last told.")
    told_count = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(name="alarm_once", fields=("kind", "subject"), condition=Q(is_over=False)),
            models.CheckConstraint(name="alarm_over_is_cleared", condition=Q(is_over=False) | ~Q(cleared_at=None)),
        )

    def __str__(self) -> str:
        return Truncator(self.sentence).chars(120).removesuffix(".")


class Occasion(models.TextChoices):
    """Why people are told of an alarm."""

    RAISED = "raised", "Alarm"
    GROWN = "grown", "Alarm has grown"
    REMINDER = "reminder", "Still open"
    OVER = "over", "Over"
    TEST = "test", "Test"


class NoticeState(models.TextChoices):
    WAITING = "waiting"
    SENDING = "sending"
    SENT = "sent"
    FAILED = "failed"


class Notice(models.Model):
    """What a role is told over one channel. Rows are the queue.

    A notice that goes out in one message with others names the first of them as its `leader`.
    """

    alarm = models.ForeignKey(Alarm, on_delete=models.PROTECT, null=True, help_text="Null: a test.")
    occasion = models.CharField(max_length=8, choices=Occasion)
    sentence = models.TextField()
    url = models.CharField(max_length=700, blank=True)
    role = models.CharField(max_length=16)
    channel = models.CharField(max_length=8, help_text="How it is told: by e-mail, or to a URL.")
    made_at = models.DateTimeField()
    state = models.CharField(max_length=8, choices=NoticeState, default=NoticeState.WAITING)
    attempts = models.PositiveSmallIntegerField(default=0)
    next_at = models.DateTimeField()
    claimed_at = models.DateTimeField(null=True)
    sent_at = models.DateTimeField(null=True)
    leader = models.ForeignKey("self", on_delete=models.PROTECT, null=True)
    trouble = models.CharField(max_length=300, blank=True, help_text="What the last attempt failed of.")

    class Meta:
        ordering = ("-id",)
        indexes = (
            models.Index(
                name="notice_open", fields=("role", "channel", "id"), condition=Q(state__in=("waiting", "sending"))
            ),
            models.Index(name="notice_lately", fields=("role", "channel", "claimed_at")),
        )

    def __str__(self) -> str:
        return f"{self.get_occasion_display()}: {self.sentence}"
