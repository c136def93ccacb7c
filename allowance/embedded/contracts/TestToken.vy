# pragma version 0.4.3
# pragma evm-version cancun
"""
@title Test Token
@custom:contract-name TestToken
@notice An ERC-20 for the embedded development chain and for tests. The deployer owns it and mints.
"""

from snekmate.auth import ownable
initializes: ownable

from snekmate.tokens import erc20
initializes: erc20[ownable := ownable]

exports: erc20.__interface__


@deploy
def __init__(name: String[25], symbol: String[5], decimals: uint8):
    ownable.__init__()
    erc20.__init__(name, symbol, decimals, name, "1")
