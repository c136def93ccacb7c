"""An installation to look at: months of decisions with valid evidence, and everything that finance staff deal with.

The decisions are made by the product's own rules and signed with its own key, so that `verify_log` passes. The payments
never were on a chain: the comparisons with the chain begin after them.
"""
