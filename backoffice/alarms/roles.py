"""Which role deals with which kind of alarm. Pure."""

FINANCE, OPERATIONS, ADMINISTRATOR = "finance", "operations", "administrator"
# The group of Django whose members have the role.
GROUPS = {FINANCE: "Finance", OPERATIONS: "Operations", ADMINISTRATOR: "Administrator"}
# By the first word of the kind; what is not here is an errand of Operations.
_DEALT_WITH_BY = {
    "approvals": (FINANCE,),
    # One decides on the payee, the other revokes the key.
    "payees": (FINANCE, OPERATIONS),
    "requests": (FINANCE,),
    "deposits": (FINANCE,),
    "outflows": (FINANCE, OPERATIONS),
    "pools": (FINANCE, OPERATIONS),
    "limit": (FINANCE,),
    "dry": (FINANCE,),
    # Both start signing again, one looks why it stopped, the other where the money is.
    "chains": (FINANCE, OPERATIONS),
    "signer": (FINANCE, OPERATIONS),
    "lockouts": (ADMINISTRATOR,),
}


def roles_of(kind: str) -> tuple[str, ...]:
    """Name the roles that deal with a kind of alarm."""
    return _DEALT_WITH_BY.get(kind.split(" ", 1)[0], (OPERATIONS,))
