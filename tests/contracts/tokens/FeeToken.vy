# pragma version 0.4.3
# pragma evm-version cancun
"""
@notice Keeps a fee on every transfer.
"""

balanceOf: public(HashMap[address, uint256])
fee: immutable(uint256)


@deploy
def __init__(fee_: uint256):
    fee = fee_


@external
def mint(owner: address, amount: uint256):
    self.balanceOf[owner] += amount


@external
def transfer(to: address, amount: uint256) -> bool:
    return self._move(msg.sender, to, amount)


@external
def transferFrom(owner: address, to: address, amount: uint256) -> bool:
    return self._move(owner, to, amount)


@internal
def _move(owner: address, to: address, amount: uint256) -> bool:
    self.balanceOf[owner] -= amount
    self.balanceOf[to] += amount - min(amount, fee)
    return True
