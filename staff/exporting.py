"""Record what is exported: who took which rows out of the console."""

from collections.abc import Mapping

from django.http import HttpRequest

from staff.audit import record


def record_export(request: HttpRequest, name: str, file_format: str, filters: Mapping[str, str]) -> None:
    """Record that a person exports a list, filtered as `filters` says."""
    after = {"format": file_format, **{f"filter {key}": value for key, value in filters.items()}}
    by = request.user.get_username()
    record("export.made", subject_type="export", subject=name[:255], by=by, after=after)
