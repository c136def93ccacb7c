# pragma version 0.4.3
# pragma evm-version cancun
"""
@title Allowance Escrow
@custom:contract-name Escrow
@notice Holds the tokens of all allowances on one chain. A payment needs two
        keys: an enabled relayer submits it and the policy signer has signed
        exactly this payment. Either of them alone moves nothing.
@dev The rolling 24 h and 7 d limits per agent live in the ledger. The cap here
     is the last line, for the day when both keys are in the wrong hands.
     The Python adapter decodes revert reasons: they are part of the interface.
"""

from ethereum.ercs import IERC20

from snekmate.auth import ownable
initializes: ownable

from snekmate.auth import ownable_2step
initializes: ownable_2step[ownable := ownable]

from snekmate.utils import ecdsa

from snekmate.utils import eip712_domain_separator
initializes: eip712_domain_separator

from snekmate.utils import pausable
initializes: pausable

# `renounce_ownership` is left out on purpose: without an owner nobody could
# pause, rotate the policy signer or rescue the money.
exports: (
    ownable_2step.owner,
    ownable_2step.pending_owner,
    ownable_2step.transfer_ownership,
    ownable_2step.accept_ownership,
    pausable.paused,
    eip712_domain_separator.eip712Domain,
)


event Deposited:
    depositor: indexed(address)
    token: indexed(address)
    agent: String[1024]
    amount: uint256


event Paid:
    paymentId: indexed(bytes32)
    token: indexed(address)
    recipient: indexed(address)
    amount: uint256


event Withdrawn:
    token: indexed(address)
    to: indexed(address)
    amount: uint256


event RelayerSet:
    relayer: indexed(address)
    enabled: bool


event PolicySignerSet:
    previous: indexed(address)
    current: indexed(address)


event DailyCapSet:
    token: indexed(address)
    cap: uint256


_PAYMENT_TYPE_HASH: constant(bytes32) = keccak256(
    "Payment(bytes32 paymentId,address token,address recipient,uint256 amount,uint256 deadline)"
)
_SECONDS_PER_DAY: constant(uint256) = 86_400

policySigner: public(address)
relayers: public(HashMap[address, bool])
settled: public(HashMap[bytes32, bool])

# Zero, which is also what an unknown token has, means that nothing may be paid.
dailyCap: public(HashMap[address, uint256])
_paid_on_day: HashMap[address, HashMap[uint256, uint256]]


@deploy
def __init__(owner: address, policy_signer: address, relayers: DynArray[address, 64]):
    """
    @notice Gives the roles out; the deployer keeps none of them. All caps start at zero.
    """
    assert owner != empty(address), "escrow: zero address"

    ownable.__init__()
    ownable._transfer_ownership(owner)
    ownable_2step.__init__()
    pausable.__init__()
    eip712_domain_separator.__init__("Allowance Escrow", "1")

    self._set_policy_signer(policy_signer)
    for relayer: address in relayers:
        self._set_relayer(relayer, True)


@external
@nonreentrant
def deposit(agent: String[1024], token: address, amount: uint256):
    """
    @notice Pulls `amount` from the caller and funds the allowance of `agent` with what arrived.
    @dev What arrived can be less than `amount`: some tokens keep a fee on every transfer.
    """
    pausable._require_not_paused()
    assert len(agent) > 0, "escrow: no agent"
    assert amount > 0, "escrow: zero amount"

    before: uint256 = staticcall IERC20(token).balanceOf(self)
    assert extcall IERC20(token).transferFrom(
        msg.sender, self, amount, default_return_value=True
    ), "escrow: token refused"
    received: uint256 = staticcall IERC20(token).balanceOf(self) - before
    assert received > 0, "escrow: nothing arrived"

    log Deposited(depositor=msg.sender, token=token, agent=agent, amount=received)


@external
@nonreentrant
def pay(
    paymentId: bytes32,
    token: address,
    recipient: address,
    amount: uint256,
    deadline: uint256,
    policySignature: Bytes[65],
):
    """
    @notice Pays `amount` to `recipient`, once per `paymentId`, up to and including `deadline`.
    """
    assert self.relayers[msg.sender], "escrow: not a relayer"
    pausable._require_not_paused()
    assert block.timestamp <= deadline, "escrow: expired"
    assert not self.settled[paymentId], "escrow: already settled"
    self._check_policy_signature(
        keccak256(abi_encode(_PAYMENT_TYPE_HASH, paymentId, token, recipient, amount, deadline)),
        policySignature,
    )

    self.settled[paymentId] = True
    self._count_against_cap(token, amount)
    log Paid(paymentId=paymentId, token=token, recipient=recipient, amount=amount)

    self._send(token, recipient, amount)


@external
@nonreentrant
def withdraw(token: address, to: address, amount: uint256):
    """
    @notice Lets the owner take money out, also while paused: this is the rescue.
    """
    ownable._check_owner()
    log Withdrawn(token=token, to=to, amount=amount)
    self._send(token, to, amount)


@external
@view
def paidToday(token: address) -> uint256:
    """
    @notice Returns what was paid in `token` since midnight UTC.
    """
    return self._paid_on_day[token][self._today()]


@external
def setRelayer(relayer: address, enabled: bool):
    """
    @notice Enables or disables a relayer.
    """
    ownable._check_owner()
    self._set_relayer(relayer, enabled)


@external
def setPolicySigner(signer: address):
    """
    @notice Replaces the policy signer. What the old one signed is refused from here on.
    """
    ownable._check_owner()
    self._set_policy_signer(signer)


@external
def setDailyCap(token: address, cap: uint256):
    """
    @notice Sets how much of `token` may be paid per UTC day, effective at once. Zero: nothing.
    """
    ownable._check_owner()
    self.dailyCap[token] = cap
    log DailyCapSet(token=token, cap=cap)


@external
def pause():
    """
    @notice Stops deposits and payments.
    """
    ownable._check_owner()
    pausable._pause()


@external
def unpause():
    """
    @notice Lets deposits and payments continue.
    """
    ownable._check_owner()
    pausable._unpause()


@internal
@view
def _check_policy_signature(struct_hash: bytes32, signature: Bytes[65]):
    # The `ecdsa` module also reads 64-byte compact signatures. One payment has one
    # form of signature here: 65 bytes and, which the module checks, a low `s`.
    assert len(signature) == 65, "escrow: wrong policy signature"
    signer: address = ecdsa._recover_sig(
        eip712_domain_separator._hash_typed_data_v4(struct_hash), signature
    )
    assert signer == self.policySigner, "escrow: wrong policy signature"


@internal
def _count_against_cap(token: address, amount: uint256):
    # A calendar day lets up to two caps pass around midnight. That is good enough
    # for a last line: the exact rolling windows are kept by the ledger before the
    # policy signer signs, and this bucket costs one slot instead of a history.
    today: uint256 = self._today()
    paid: uint256 = self._paid_on_day[token][today]
    cap: uint256 = self.dailyCap[token]
    # Subtracting, since `paid + amount` could overflow; the owner may have set the
    # cap below what is already paid.
    assert paid <= cap and amount <= cap - paid, "escrow: over daily cap"
    self._paid_on_day[token][today] = paid + amount


@internal
def _send(token: address, to: address, amount: uint256):
    assert to not in [empty(address), self, token], "escrow: recipient refused"
    assert amount > 0, "escrow: zero amount"
    # Tokens such as USDT on Ethereum return nothing; others return false instead of reverting.
    assert extcall IERC20(token).transfer(
        to, amount, default_return_value=True
    ), "escrow: token refused"


@internal
@view
def _today() -> uint256:
    return block.timestamp // _SECONDS_PER_DAY


@internal
def _set_relayer(relayer: address, enabled: bool):
    assert relayer != empty(address), "escrow: zero address"
    # One key with both roles could move money alone.
    assert relayer != self.policySigner, "escrow: one key for two roles"
    self.relayers[relayer] = enabled
    log RelayerSet(relayer=relayer, enabled=enabled)


@internal
def _set_policy_signer(signer: address):
    assert signer != empty(address), "escrow: zero address"
    assert not self.relayers[signer], "escrow: one key for two roles"
    log PolicySignerSet(previous=self.policySigner, current=signer)
    self.policySigner = signer
