"""How long a payment of a run may be included, and how the EVM chain's clock is moved past that. No settings."""

# Longer than what is too short for a higher fee to be worth it (two minutes), by some seconds in which one is offered.
VALIDITY_S = 140
# So long it is good for once the chain's clock is ahead: long enough to land, short enough to wait for.
SHORT_S = 25
AHEAD_S = VALIDITY_S - SHORT_S
# Then whatever is signed has expired already.
FAR_AHEAD_S = 3_700
