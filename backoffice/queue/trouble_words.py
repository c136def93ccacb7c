"""The words by which the trouble of a chain is told, and known again. Pure."""

MISSING_MONEY = "Money is missing."
DENIES_PAYMENTS = "Settled payments are not confirmed."
DIFFERS = "It is not what is configured:"
