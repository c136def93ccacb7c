"""What a developer's error page leaves out, beside what Django leaves out by its name."""

from typing import Any

from django.http import HttpRequest
from django.views.debug import SafeExceptionReporterFilter

from allowance.environment.process_types import is_secret


class SecretFilter(SafeExceptionReporterFilter):
    """Hide the secrets of the environment, which Django's own server, a command, hands on with every request."""

    def get_safe_request_meta(self, request: HttpRequest) -> dict[str, Any]:
        meta = super().get_safe_request_meta(request)
        return {name: self.cleansed_substitute if is_secret(name) else value for name, value in meta.items()}
