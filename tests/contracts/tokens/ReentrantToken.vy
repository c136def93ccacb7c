# pragma version 0.4.3
# pragma evm-version cancun
"""
@notice Calls back once, in the first transfer after it was armed.
@dev `insist` decides what follows when the call back is refused: true reverts the
     transfer, false lets it go through as if nothing had been tried.
"""

balanceOf: public(HashMap[address, uint256])
attempts: public(uint256)
answer: public(Bytes[32])

target: address
message: Bytes[1024]
insist: bool


@external
def mint(owner: address, amount: uint256):
    self.balanceOf[owner] += amount


@external
def arm(target: address, message: Bytes[1024], insist: bool):
    self.target = target
    self.message = message
    self.insist = insist


@external
def strike():
    """
    @notice Makes the call outside of any transfer, to show what it is worth there.
    """
    self._call_back()


@external
def transfer(to: address, amount: uint256) -> bool:
    return self._move(msg.sender, to, amount)


@external
def transferFrom(owner: address, to: address, amount: uint256) -> bool:
    return self._move(owner, to, amount)


@internal
def _move(owner: address, to: address, amount: uint256) -> bool:
    self.balanceOf[owner] -= amount
    self.balanceOf[to] += amount
    if self.target != empty(address):
        self._call_back()
    return True


@internal
def _call_back():
    # Disarmed first: what the call back transfers must not call back again, or its refusal
    # would pass for the refusal of the first.
    target: address = self.target
    self.target = empty(address)
    self.attempts += 1
    success: bool = False
    answer: Bytes[32] = b""
    success, answer = raw_call(target, self.message, max_outsize=32, revert_on_failure=False)
    self.answer = answer
    assert success or not self.insist, "token: call back refused"
