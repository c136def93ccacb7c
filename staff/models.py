"""Who changed what, and changes that wait for a second person."""

from datetime import datetime

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q


class AuditEntry(models.Model):
    """One change, command or sign-in: who, what, to which row, why. Append-only.

    `author` is a user name, which has no spaces; or "command line", or "key key_…" for a caller of the API, or the part
    of the system that acts by itself.
    """

    at = models.DateTimeField()
    author = models.CharField(max_length=150)
    confirmed_by = models.CharField(max_length=150, blank=True, help_text="The second person, if there was one.")
    action = models.CharField(max_length=48, help_text="What was done, such as agent.paused.")
    subject_type = models.CharField(max_length=32, help_text="What it was done to, such as agent.")
    subject = models.CharField(max_length=255, help_text="The id of that.")
    reason = models.CharField(max_length=500, blank=True)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)

    class Meta:
        ordering = ("-at", "-id")
        verbose_name_plural = "audit"
        constraints = (models.CheckConstraint(name="audit_says_who", condition=~Q(author="") & ~Q(action="")),)
        indexes = (
            models.Index(name="audit_by_subject", fields=("subject", "at", "id")),
            models.Index(name="audit_by_kind", fields=("subject_type", "at", "id")),
            models.Index(name="audit_by_author", fields=("author", "at", "id")),
            models.Index(name="audit_by_action", fields=("action", "at", "id")),
            models.Index(name="audit_by_time", fields=("at", "id")),
        )

    def __str__(self) -> str:
        return f"{self.action} {self.subject}"


class RequestState(models.TextChoices):
    WAITING = "waiting"
    CONFIRMED = "confirmed"
    REFUSED = "refused"
    TAKEN_BACK = "taken_back", "Taken back"
    EXPIRED = "expired"


class ChangeRequest(models.Model):
    """A change that one person asked for and another has to confirm.

    `arguments` is what the operation is called with. `shown` is what the first person saw, as pairs of a label and a
    text: the second sees exactly that.
    """

    kind = models.CharField(max_length=48)
    subject_type = models.CharField(max_length=32)
    subject = models.CharField(max_length=255)
    arguments = models.JSONField()
    shown = ArrayField(ArrayField(models.TextField(), size=2))
    reason = models.CharField(max_length=500)
    asked_by = models.CharField(max_length=150)
    asked_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    state = models.CharField(max_length=10, choices=RequestState, default=RequestState.WAITING)
    decided_by = models.CharField(max_length=150, blank=True)
    decided_at = models.DateTimeField(null=True)
    answer = models.CharField(max_length=500, blank=True, help_text="Why it was refused.")

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.CheckConstraint(name="request_state_known", condition=Q(state__in=RequestState.values)),
            # What makes two of one person is no second person: the database refuses it, too.
            models.CheckConstraint(
                name="request_confirmed_by_another",
                condition=~Q(state="confirmed") | (~Q(decided_by="") & ~Q(decided_by=F("asked_by"))),
            ),
            models.CheckConstraint(name="request_says_why", condition=~Q(asked_by="") & ~Q(reason="")),
        )
        indexes = (models.Index(name="request_waiting", fields=("id",), condition=Q(state="waiting")),)

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}"

    def state_at(self, now: datetime) -> RequestState:
        """Tell its state: nobody has to end a request whose time is over."""
        state = RequestState(self.state)
        is_late = state == RequestState.WAITING and self.expires_at <= now
        return RequestState.EXPIRED if is_late else state
