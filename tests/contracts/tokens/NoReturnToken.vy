# pragma version 0.4.3
# pragma evm-version cancun
"""
@notice Returns nothing from its transfers, as USDT does on Ethereum.
"""

balanceOf: public(HashMap[address, uint256])


event Transfer:
    sender: indexed(address)
    receiver: indexed(address)
    amount: uint256


@external
def mint(owner: address, amount: uint256):
    self.balanceOf[owner] += amount


@external
def transfer(to: address, amount: uint256):
    self._move(msg.sender, to, amount)


@external
def transferFrom(owner: address, to: address, amount: uint256):
    self._move(owner, to, amount)


@internal
def _move(owner: address, to: address, amount: uint256):
    self.balanceOf[owner] -= amount
    self.balanceOf[to] += amount
    log Transfer(sender=owner, receiver=to, amount=amount)
