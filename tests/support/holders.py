"""Which processes read a setting, beside commands, by the table; what all may read is not here."""

from foundation.environment.process_types import EVERY_TYPE
from foundation.environment.table import SETTINGS

READERS = {one.name: one.holders for one in SETTINGS if one.holders != EVERY_TYPE}
