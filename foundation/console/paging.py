"""Pages of tables that may be large."""

from typing import Any

from django.core.paginator import Paginator
from django.utils.functional import cached_property


class CappedPaginator(Paginator):
    """Pages of a table that may be large: at most `count_limit` rows are counted. Older ones are found by searching."""

    count_limit = 5_000

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return int(rows[: self.count_limit].count())

    @property
    def is_capped(self) -> bool:
        return self.count == self.count_limit
