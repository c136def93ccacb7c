"""Hide secrets on a developer's error page, beside those that Django hides by their names."""

from typing import Any

from django.http import HttpRequest
from django.views.debug import SafeExceptionReporterFilter

from foundation.environment.table import is_secret


class SecretFilter(SafeExceptionReporterFilter):
    """Hide the secrets of the environment, which Django's development server puts into every request."""

    def get_safe_request_meta(self, request: HttpRequest) -> dict[str, Any]:
        meta = super().get_safe_request_meta(request)
        return {name: self.cleansed_substitute if is_secret(name) else value for name, value in meta.items()}
