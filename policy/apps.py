"""The Django app."""

from django.apps import AppConfig


class PolicyConfig(AppConfig):
    name = "policy"
    verbose_name = "Policy and agents"

    def ready(self) -> None:
        from policy.proposals import register_kinds
        from policy.shadow_proposals import KINDS
        from policy.template_proposals import register_template_kinds
        from staff.kinds import register

        register_kinds()
        register_template_kinds()
        register(*KINDS)
