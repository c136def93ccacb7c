"""The console's pages of services and of what is told to them. Importing them registers them."""

from services.admin import attempts, deliveries, endpoints
from services.admin.payees import chain

__all__ = ["attempts", "chain", "deliveries", "endpoints"]
