// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC1271} from "@openzeppelin/contracts/interfaces/IERC1271.sol";
import {Ownable, Ownable2Step} from "@openzeppelin/contracts/access/Ownable2Step.sol";
import {IERC20, SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {SignatureChecker} from "@openzeppelin/contracts/utils/cryptography/SignatureChecker.sol";
import {Pausable} from "@openzeppelin/contracts/utils/Pausable.sol";
import {ReentrancyGuard} from "@openzeppelin/contracts/utils/ReentrancyGuard.sol";

/// What the escrow asks of a token that moves money by signed authorizations (EIP-3009).
interface IAuthorizingToken {
    function DOMAIN_SEPARATOR() external view returns (bytes32);
    function authorizationState(address authorizer, bytes32 nonce) external view returns (bool);
}

/// @title Allowance Escrow
/// @notice Holds the tokens of all allowances on one chain. A payment needs two keys: an enabled relayer submits it
///         and the policy signer has signed exactly this payment. Either of them alone moves nothing. Where the owner
///         allows it, a token takes money out by an authorization that both keys have signed, whoever submits it.
/// @dev The rolling 24 h and 7 d limits per agent live in the ledger. The cap here is the last line, for the day when
///      both keys are in the wrong hands. The Python adapter decodes revert reasons: they are part of the interface.
contract Escrow is Ownable2Step, Pausable, ReentrancyGuard, EIP712, IERC1271 {
    using SafeERC20 for IERC20;

    /// What became of a payment id. Neither Paid nor Void ever changes again.
    enum Status {
        None,
        Paid,
        Void
    }

    /// By `most` and `reserve`, in base units, the owner limits what may leave by authorizations: each moves at most
    /// `most`, and all of them leave `reserve` in the escrow. `wasSet` never becomes false again.
    struct AuthorizationLimits {
        uint256 most;
        uint256 reserve;
        bool wasSet;
    }

    /// EIP-3009's TransferWithAuthorization, without its `from`, which is the escrow.
    struct Authorization {
        address token;
        address to;
        uint256 value;
        uint256 validAfter;
        uint256 validBefore;
        bytes32 nonce;
    }

    /// One payment of a list, which the policy signer signs as a whole.
    struct Payment {
        bytes32 paymentId;
        address token;
        address recipient;
        uint256 amount;
    }

    event Deposited(address indexed depositor, address indexed token, string agent, uint256 amount);
    event Paid(bytes32 indexed paymentId, address indexed token, address indexed recipient, uint256 amount);
    /// A payment of a list stays unpaid, and can be paid later. `why` is what `pay` would say, where `pay` has a text.
    event Skipped(bytes32 indexed paymentId, string why);
    /// The gas that each payment of a list used, in the list's order: 32 bits each, eight to a word, the first in the
    /// lowest bits. The first payment of a token also pays for what the others of this token find already loaded.
    event GasUsed(uint256[] packed);
    event Voided(bytes32 indexed paymentId);
    event Withdrawn(address indexed token, address indexed to, uint256 amount);
    event RelayerSet(address indexed relayer, bool enabled);
    event PolicySignerSet(address indexed previous, address indexed current);
    event DailyCapSet(address indexed token, uint256 cap);
    event AuthorizationLimitsSet(address indexed token, uint256 most, uint256 reserve);

    bytes32 private constant PAYMENT_TYPE_HASH = keccak256(
        "Payment(bytes32 paymentId,address token,address recipient,uint256 amount,uint256 deadline)"
    );
    bytes32 private constant BATCH_TYPE_HASH = keccak256(
        "Batch(Payment[] payments,uint256 deadline)Payment(bytes32 paymentId,address token,address recipient,uint256 amount)"
    );
    bytes32 private constant BATCHED_PAYMENT_TYPE_HASH = keccak256(
        "Payment(bytes32 paymentId,address token,address recipient,uint256 amount)"
    );
    bytes32 private constant VOID_TYPE_HASH = keccak256("Void(bytes32 paymentId)");
    bytes32 private constant AUTHORIZATION_TYPE_HASH = keccak256(
        "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    /// A signature of `isValidSignature`: the words of an `Authorization`, the relayer's signature, the policy signer's.
    uint256 private constant AUTHORIZATION_BYTES = 6 * 32;
    uint256 private constant RELAYER_SIGNED_BYTES = AUTHORIZATION_BYTES + 65;
    /// What was signed while both keys were in the wrong hands is worth nothing soon after.
    uint256 private constant LONGEST_AUTHORIZATION = 1 hours;
    uint256 private constant MOST_RELAYERS_AT_FIRST = 64;
    uint256 private constant MOST_AGENT_BYTES = 1024;
    uint256 public constant MOST_TOGETHER = 64;
    /// Each transfer of a list has exactly so much gas, and so has each question whether an authorization was used. With
    /// less they might fail: a relayer, who chooses the gas of the list, would choose what is skipped.
    uint256 public constant TOKEN_GAS = 150_000;
    uint256 private constant TOKEN_VIEW_GAS = 30_000;
    /// What must be there beyond that. The EVM keeps a 64th of the gas back, and makes the call with less where that does
    /// not suffice (EIP-150); the rest is for the call itself.
    uint256 private constant CALL_GAS = TOKEN_GAS / 63 + 2_000;

    /// A key, or a contract that answers `isValidSignature` (ERC-1271).
    address public policySigner;
    mapping(address relayer => bool) public relayers;
    mapping(bytes32 paymentId => Status) public status;
    /// Zero, which is also what an unknown token has, means that nothing may be paid.
    mapping(address token => uint256) public dailyCap;
    /// Zero, which is also what an unknown token has, means that nothing may leave by authorizations.
    mapping(address token => AuthorizationLimits) public authorizationLimits;
    mapping(address token => mapping(uint256 day => uint256)) private _paidOnDay;

    modifier onlyRelayer() {
        require(relayers[msg.sender], "escrow: not a relayer");
        _;
    }

    /// @notice Gives the roles out; the deployer keeps none of them. All caps start at zero.
    constructor(
        address owner_,
        address policySigner_,
        address[] memory relayers_
    ) Ownable(owner_) EIP712("Allowance Escrow", "1") {
        require(relayers_.length <= MOST_RELAYERS_AT_FIRST, "escrow: too many relayers");
        _setPolicySigner(policySigner_);
        for (uint256 index = 0; index < relayers_.length; index++) {
            _setRelayer(relayers_[index], true);
        }
    }

    /// @notice Pulls `amount` from the caller and funds the allowance of `agent` with what arrived.
    /// @dev What arrived can be less than `amount`: some tokens keep a fee on every transfer.
    function deposit(string calldata agent, address token, uint256 amount) external nonReentrant whenNotPaused {
        require(bytes(agent).length > 0, "escrow: no agent");
        require(bytes(agent).length <= MOST_AGENT_BYTES, "escrow: agent too long");
        require(amount > 0, "escrow: zero amount");

        uint256 before = IERC20(token).balanceOf(address(this));
        IERC20(token).safeTransferFrom(msg.sender, address(this), amount);
        uint256 received = IERC20(token).balanceOf(address(this)) - before;
        require(received > 0, "escrow: nothing arrived");

        emit Deposited(msg.sender, token, agent, received);
    }

    /// @notice Pays `amount` to `recipient`, once per `paymentId`, up to and including `deadline`.
    function pay(
        bytes32 paymentId,
        address token,
        address recipient,
        uint256 amount,
        uint256 deadline,
        bytes calldata policySignature
    ) external nonReentrant onlyRelayer whenNotPaused {
        require(block.timestamp <= deadline, "escrow: expired");
        require(!_isAuthorizationUsed(token, paymentId), "escrow: authorization used");
        bytes32 structHash = keccak256(
            abi.encode(PAYMENT_TYPE_HASH, paymentId, token, recipient, amount, deadline)
        );
        _settle(paymentId, Status.Paid, structHash, policySignature);
        _countAgainstCap(token, amount);
        emit Paid(paymentId, token, recipient, amount);

        _send(token, recipient, amount);
    }

    /// @notice Pays each payment of a list that can be paid, up to and including `deadline`. The policy signer has
    ///         signed exactly this list.
    /// @dev A payment that `pay` would refuse is skipped: it stays unpaid, and the others are paid. `Paid` follows the
    ///      token's own event here, since only then the escrow knows. The gas limit of the transaction must leave
    ///      TOKEN_GAS and CALL_GAS when the last payment is sent.
    function payMany(
        Payment[] calldata payments,
        uint256 deadline,
        bytes calldata policySignature
    ) external nonReentrant onlyRelayer whenNotPaused {
        require(block.timestamp <= deadline, "escrow: expired");
        require(payments.length > 0, "escrow: no payments");
        require(payments.length <= MOST_TOGETHER, "escrow: too many payments");
        _requireSigned(_hashBatch(payments, deadline), policySignature);

        uint256[] memory packed = new uint256[]((payments.length + 7) / 8);
        uint256 today = _today();
        uint256 before = gasleft();
        for (uint256 index = 0; index < payments.length; index++) {
            _payOrSkip(payments[index], today);
            uint256 left = gasleft();
            unchecked {
                packed[index / 8] |= (before - left) << ((index % 8) * 32);
            }
            before = left;
        }
        emit GasUsed(packed);
    }

    /// @notice Is called by the escrow alone, for each payment of a list.
    /// @dev A call of its own, so that it has gas of its own, and nothing remains of a transfer of which the token then
    ///      says that it was none. The escrow calls itself nowhere else: calls to tokens have other selectors.
    function sendForList(address token, address to, uint256 amount) external {
        require(msg.sender == address(this), "escrow: not the escrow");
        require(IERC20(token).trySafeTransfer(to, amount), "escrow: token refused");
    }

    /// @notice Uses `paymentId` up without paying: from here on nothing can be paid under it.
    /// @dev Also while paused: it moves nothing, and what was promised to the payment can be given back.
    function void(bytes32 paymentId, bytes calldata policySignature) external nonReentrant onlyRelayer {
        _settle(paymentId, Status.Void, keccak256(abi.encode(VOID_TYPE_HASH, paymentId)), policySignature);
        emit Voided(paymentId);
    }

    /// @notice Tells a token (ERC-1271) whether the escrow has authorized it to move money: both keys have signed it.
    /// @dev The nonce of an authorization is a payment id: what `pay` or `void` has settled is not authorized any more.
    ///      A view counts nothing: authorizations fit into what is left of the daily cap, but do not use it up. What
    ///      bounds them all together is `reserve`. Reverts where it is not valid, with the reason.
    function isValidSignature(
        bytes32 digest,
        bytes calldata signature
    ) external view whenNotPaused returns (bytes4) {
        Authorization memory asked = abi.decode(signature[:AUTHORIZATION_BYTES], (Authorization));
        _requireSendable(asked.token, asked.to, asked.value);
        _requireWithinLimits(asked);
        require(digest == _authorizationDigest(asked), "escrow: not this authorization");

        (address relayer, , ) = ECDSA.tryRecoverCalldata(digest, signature[AUTHORIZATION_BYTES:RELAYER_SIGNED_BYTES]);
        require(relayers[relayer], "escrow: not a relayer's signature");
        require(_hasSigned(digest, signature[RELAYER_SIGNED_BYTES:]), "escrow: wrong policy signature");
        return IERC1271.isValidSignature.selector;
    }

    /// @notice Lets the owner take money out, also while paused: this is the rescue.
    function withdraw(address token, address to, uint256 amount) external nonReentrant onlyOwner {
        emit Withdrawn(token, to, amount);
        _send(token, to, amount);
    }

    /// @notice Returns what was paid in `token` since midnight UTC.
    function paidToday(address token) external view returns (uint256) {
        return _paidOnDay[token][_today()];
    }

    /// @notice Asks a token whether it has moved money by the escrow's authorization of this id. Reverts where it does not
    ///         answer.
    function askWhetherUsed(address token, bytes32 paymentId) public view returns (bool) {
        return IAuthorizingToken(token).authorizationState(address(this), paymentId);
    }

    /// @notice Returns what became of each of these ids.
    function statuses(bytes32[] calldata paymentIds) external view returns (Status[] memory found) {
        found = new Status[](paymentIds.length);
        for (uint256 index = 0; index < paymentIds.length; index++) {
            found[index] = status[paymentIds[index]];
        }
    }

    /// @notice Enables or disables a relayer.
    function setRelayer(address relayer, bool enabled) external onlyOwner {
        _setRelayer(relayer, enabled);
    }

    /// @notice Replaces the policy signer. What the old one signed is refused from here on.
    function setPolicySigner(address signer) external onlyOwner {
        _setPolicySigner(signer);
    }

    /// @notice Sets how much of `token` may be paid per UTC day, effective at once. Zero: nothing.
    function setDailyCap(address token, uint256 cap) external onlyOwner {
        dailyCap[token] = cap;
        emit DailyCapSet(token, cap);
    }

    /// @notice Lets `token` move up to `most` by each authorization while `reserve` stays here. Zero: none is valid.
    function setAuthorizationLimits(address token, uint256 most, uint256 reserve) external onlyOwner {
        authorizationLimits[token] = AuthorizationLimits(most, reserve, true);
        // A token that knows no authorizations reverts here; otherwise it would in every payment from now on.
        _isAuthorizationUsed(token, 0);
        emit AuthorizationLimitsSet(token, most, reserve);
    }

    /// @notice Stops deposits and payments.
    function pause() external onlyOwner {
        _pause();
    }

    /// @notice Lets deposits and payments continue.
    function unpause() external onlyOwner {
        _unpause();
    }

    /// @notice Refuses: without an owner nobody could pause, rotate the policy signer or rescue the money.
    function renounceOwnership() public pure override {
        revert("escrow: an owner is needed");
    }

    /// Decides what becomes of an id, once. The policy signer has signed exactly this.
    function _settle(bytes32 paymentId, Status outcome, bytes32 structHash, bytes calldata signature) private {
        require(status[paymentId] == Status.None, "escrow: already settled");
        _requireSigned(structHash, signature);
        status[paymentId] = outcome;
    }

    function _payOrSkip(Payment calldata payment, uint256 today) private {
        (bytes32 paymentId, address token, address recipient, uint256 amount) = (
            payment.paymentId, payment.token, payment.recipient, payment.amount
        );
        string memory why = _tryToPay(paymentId, token, recipient, amount, today);
        if (bytes(why).length > 0) {
            emit Skipped(paymentId, why);
        } else {
            emit Paid(paymentId, token, recipient, amount);
        }
    }

    /// Returns why a payment of a list was not paid; an empty text if it was. As in `pay`, it counts before its money
    /// moves.
    function _tryToPay(
        bytes32 paymentId,
        address token,
        address recipient,
        uint256 amount,
        uint256 today
    ) private returns (string memory) {
        if (status[paymentId] != Status.None) return "escrow: already settled";
        if (authorizationLimits[token].wasSet) {
            (bool isAnswered, bool isUsed) = _tryToAsk(token, paymentId);
            if (!isAnswered) return "escrow: token refused";
            if (isUsed) return "escrow: authorization used";
        }
        mapping(uint256 day => uint256) storage paidOnDay = _paidOnDay[token];
        uint256 paid = paidOnDay[today];
        if (!_isWithinCap(token, paid, amount)) return "escrow: over daily cap";
        if (!_isPayee(token, recipient)) return "escrow: recipient refused";
        if (amount == 0) return "escrow: zero amount";

        status[paymentId] = Status.Paid;
        unchecked {
            paidOnDay[today] = paid + amount;
        }
        if (_tryToSend(token, recipient, amount)) return "";
        status[paymentId] = Status.None;
        paidOnDay[today] = paid;
        return "escrow: token refused";
    }

    function _hashBatch(Payment[] calldata payments, uint256 deadline) private pure returns (bytes32) {
        bytes32[] memory hashes = new bytes32[](payments.length);
        for (uint256 index = 0; index < payments.length; index++) {
            hashes[index] = keccak256(abi.encode(BATCHED_PAYMENT_TYPE_HASH, payments[index]));
        }
        return keccak256(abi.encode(BATCH_TYPE_HASH, keccak256(abi.encodePacked(hashes)), deadline));
    }

    function _requireSigned(bytes32 structHash, bytes calldata signature) private view {
        require(_hasSigned(_hashTypedDataV4(structHash), signature), "escrow: wrong policy signature");
    }

    /// A key signs as a key even where its account runs code (EIP-7702): whoever stole it could else have that refuse
    /// every payment. One form of signature is read of it: 65 bytes with a low `s`.
    function _hasSigned(bytes32 digest, bytes calldata signature) private view returns (bool) {
        (address signer, ECDSA.RecoverError failure, ) = ECDSA.tryRecoverCalldata(digest, signature);
        if (failure == ECDSA.RecoverError.NoError && signer == policySigner) return true;
        return SignatureChecker.isValidERC1271SignatureNowCalldata(policySigner, digest, signature);
    }

    /// A calendar day lets up to two caps pass around midnight. That is good enough for a last line: the exact rolling
    /// windows are kept by the ledger before the policy signer signs, and this bucket costs one slot instead of a
    /// history.
    function _countAgainstCap(address token, uint256 amount) private {
        mapping(uint256 day => uint256) storage paidOnDay = _paidOnDay[token];
        uint256 today = _today();
        uint256 paid = paidOnDay[today];
        _requireWithinCap(token, paid, amount);
        unchecked {
            paidOnDay[today] = paid + amount;
        }
    }

    function _requireWithinCap(address token, uint256 paid, uint256 amount) private view {
        require(_isWithinCap(token, paid, amount), "escrow: over daily cap");
    }

    function _isWithinCap(address token, uint256 paid, uint256 amount) private view returns (bool) {
        uint256 cap = dailyCap[token];
        // Subtracting, since `paid + amount` could overflow; the owner may have set the cap below what is already paid.
        return paid <= cap && amount <= cap - paid;
    }

    function _requireWithinLimits(Authorization memory asked) private view {
        AuthorizationLimits storage limits = authorizationLimits[asked.token];
        require(asked.value <= limits.most, "escrow: over authorization limit");
        _requireWithinCap(asked.token, _paidOnDay[asked.token][_today()], asked.value);
        uint256 held = IERC20(asked.token).balanceOf(address(this));
        require(asked.value <= held && held - asked.value >= limits.reserve, "escrow: below reserve");
        require(asked.validBefore <= block.timestamp + LONGEST_AUTHORIZATION, "escrow: valid too long");
        require(status[asked.nonce] == Status.None, "escrow: settled otherwise");
    }

    /// Computed here, and not believed: else the keys' signatures under anything else would count as authorizations.
    function _authorizationDigest(Authorization memory asked) private view returns (bytes32) {
        bytes32 structHash = keccak256(
            abi.encode(
                AUTHORIZATION_TYPE_HASH,
                address(this),
                asked.to,
                asked.value,
                asked.validAfter,
                asked.validBefore,
                asked.nonce
            )
        );
        return MessageHashUtils.toTypedDataHash(IAuthorizingToken(asked.token).DOMAIN_SEPARATOR(), structHash);
    }

    /// Other tokens are not even asked: most of them know no authorizations.
    function _isAuthorizationUsed(address token, bytes32 paymentId) private view returns (bool) {
        if (!authorizationLimits[token].wasSet) return false;
        return askWhetherUsed(token, paymentId);
    }

    /// Tokens such as USDT on Ethereum return nothing; others return false instead of reverting: SafeERC20 knows both.
    function _send(address token, address to, uint256 amount) private {
        _requireSendable(token, to, amount);
        IERC20(token).safeTransfer(to, amount);
    }

    function _requireSendable(address token, address to, uint256 amount) private view {
        require(_isPayee(token, to), "escrow: recipient refused");
        require(amount > 0, "escrow: zero amount");
    }

    function _isPayee(address token, address to) private view returns (bool) {
        return to != address(0) && to != address(this) && to != token;
    }

    /// What a failed call returns is not read: that would cost gas without end.
    function _tryToSend(address token, address to, uint256 amount) private returns (bool) {
        require(gasleft() >= TOKEN_GAS + CALL_GAS, "escrow: too little gas");
        try this.sendForList{gas: TOKEN_GAS}(token, to, amount) {
            return true;
        } catch {
            return false;
        }
    }

    function _tryToAsk(address token, bytes32 paymentId) private view returns (bool isAnswered, bool isUsed) {
        require(gasleft() >= TOKEN_VIEW_GAS + CALL_GAS, "escrow: too little gas");
        try this.askWhetherUsed{gas: TOKEN_VIEW_GAS}(token, paymentId) returns (bool answer) {
            return (true, answer);
        } catch {
            return (false, false);
        }
    }

    function _today() private view returns (uint256) {
        return block.timestamp / 1 days;
    }

    function _setRelayer(address relayer, bool enabled) private {
        require(relayer != address(0), "escrow: zero address");
        // One key with both roles could move money alone.
        require(relayer != policySigner, "escrow: one key for two roles");
        relayers[relayer] = enabled;
        emit RelayerSet(relayer, enabled);
    }

    function _setPolicySigner(address signer) private {
        require(signer != address(0), "escrow: zero address");
        require(!relayers[signer], "escrow: one key for two roles");
        emit PolicySignerSet(policySigner, signer);
        policySigner = signer;
    }
}
