"""What `/metrics` shows: gauges that are read from the database and Redis at each request, and what processes counted.

So every process shows the same. Chains are named by their alias, amounts are in units of their asset, gas money in the
chain's own coin. Each gauge has a sample for each chain and asset that is served, and each state; an age without a
beginning is +Inf, and what only Redis knows is NaN while it is away.
"""
