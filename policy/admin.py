"""The console's pages of API keys and the policy signer's switch. The page of agents is in `payments.admin.agents`."""

from django.contrib import admin

from allowance.console.pages import ReadOnlyAdmin, instant
from policy.models import ApiKey, SignerSwitch


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    """Lists its columns one by one, so that a key's digest is not shown."""

    list_display = (
        "id", "name", "scopes", "agent_id",
        instant("created_at"), instant("expires_at"), instant("revoked_at"), instant("last_used_at"),
    )  # fmt: skip
    fields = (
        "id", "name", "scopes", "agent",
        instant("created_at"), instant("expires_at"), instant("revoked_at"), instant("last_used_at"),
    )  # fmt: skip
    search_fields = ("id__exact", "name", "agent__id__exact")


@admin.register(SignerSwitch)
class SignerSwitchAdmin(ReadOnlyAdmin):
    list_display = ("__str__", "is_signing", "changed_by", instant("changed_at"))
    fields = ("is_signing", "changed_by", instant("changed_at"))
