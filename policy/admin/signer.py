"""The console's page of the policy signer's switch."""

from django.contrib import admin

from allowance.console.pages import ReadOnlyAdmin, instant
from policy.models import SignerSwitch


@admin.register(SignerSwitch)
class SignerSwitchAdmin(ReadOnlyAdmin):
    list_display = ("__str__", "is_signing", "changed_by", instant("changed_at"))
    fields = ("is_signing", "changed_by", instant("changed_at"))
