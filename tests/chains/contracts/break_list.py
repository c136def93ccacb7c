"""What can be broken in `Escrow.sol` by hand, and the file of the tests that must notice."""

from dataclasses import dataclass

from tests.chains.contracts.breaks_of_lists import (
    GAS_OF_LISTS,
    KEYS_OF_LISTS,
    PAYING_MANY,
    REENTRANCY_OF_LISTS,
    SKIPPING,
)


@dataclass(frozen=True)
class Break:
    """A text of the source, which stands there exactly once, and what takes its place."""

    name: str
    old: str
    new: str
    noticed_by: str


_SETTLE_PAID = "_settle(paymentId, Status.Paid, structHash, policySignature);"
_COUNT = "_countAgainstCap(token, amount);\n        emit"
_RECORD = f"{_SETTLE_PAID}\n        {_COUNT} Paid(paymentId, token, recipient, amount);\n\n        "
_PAID = "emit Paid(paymentId, token, recipient, amount);\n\n"
_SEND = "_send(token, recipient, amount);"
_PAY = (
    "uint256 amount,\n        uint256 deadline,\n        bytes calldata policySignature\n"
    "    ) external nonReentrant onlyRelayer whenNotPaused {"
)
_EXPIRES = 'require(block.timestamp <= deadline, "escrow: expired");\n        require(!_isAuth'
_VOID = "policySignature) external nonReentrant onlyRelayer {"
_SIGNED = "PAYMENT_TYPE_HASH, paymentId, token, recipient, amount, deadline)"
_RENOUNCE = 'public pure override {\n        revert("escrow: an owner is needed");'
_IS_SIGNED = "if (failure == ECDSA.RecoverError.NoError && signer == policySigner) return true;"
_NOTHING = 'require(amount > 0, "escrow: zero amount");\n    }'
_FRESH = 'require(status[paymentId] == Status.None, "escrow: already settled");'

TWO_KEYS = (
    ("anybody is a relayer", 'require(relayers[msg.sender], "escrow: not a relayer");', ""),
    ("anybody submits a payment", _PAY, _PAY.replace("onlyRelayer ", "")),
    ("any signature passes", _IS_SIGNED, "if (true) return true;"),
    ("any key signs", "&& signer == policySigner", ""),
    ("the owner signs", "signer == policySigner", "signer == owner()"),
    ("the relayer signs", "signer == policySigner", "signer == msg.sender"),
    ("the id is not signed", _SIGNED, _SIGNED.replace("paymentId", "bytes32(0)")),
    ("a payment never expires", _EXPIRES, "require(!_isAuth"),
    ("an id is settled again", _FRESH, ""),
    ("a paid id is settled again", _FRESH, _FRESH.replace("== Status.None", "!= Status.Void")),
    ("what was settled is forgotten", "status[paymentId] = outcome;", ""),
    ("relayers stay for ever", "relayers[relayer] = enabled;", "relayers[relayer] = true;"),
)
SIGNATURES = (
    ("another name of the domain", 'EIP712("Allowance Escrow", "1")', 'EIP712("Allowance", "1")'),
    ("another version of the domain", 'EIP712("Allowance Escrow", "1")', 'EIP712("Allowance Escrow", "2")'),
    ("no domain", "_hashTypedDataV4(structHash)", "structHash"),
    ("another type of a payment", "uint256 amount,uint256 deadline)", "uint256 value,uint256 deadline)"),
    ("the fields in another order", _SIGNED, _SIGNED.replace("token, recipient", "recipient, token")),
    ("the void type for payments", "PAYMENT_TYPE_HASH, paymentId", "VOID_TYPE_HASH, paymentId"),
)
PAYING = (
    ("every token is asked", "if (!authorizationLimits[token].wasSet) return false;", ""),
    ("a deadline too early", _EXPIRES, _EXPIRES.replace("<=", "<")),
    ("a payment counts as void", _SETTLE_PAID, _SETTLE_PAID.replace("Paid", "Void")),
    ("no event of a payment", _PAID, ""),
    ("the event without its recipient", _PAID, _PAID.replace("recipient", "token")),
    ("nothing is sent", _SEND, ""),
    ("too much is sent", _SEND, "_send(token, recipient, amount + 1);"),
    ("the relayer is paid", _SEND, "_send(token, msg.sender, amount);"),
    ("to the zero address", "to != address(0) && ", ""),
    ("to the escrow", "to != address(this) && ", ""),
    ("to the token", " && to != token", ""),
    ("nothing is paid", _NOTHING, "}"),
    ("what a token answers is ignored", "IERC20(token).safeTransfer(to", "IERC20(token).transfer(to"),
    ("a token's refusal is ignored", "IERC20(token).safeTransfer(to", "IERC20(token).trySafeTransfer(to"),
)
DAILY_CAP = (
    ("no cap", _COUNT, "emit"),
    ("a cap above what is paid only", "paid <= cap && amount <= cap - paid", "amount <= cap - paid"),
    ("a cap per payment", "paid <= cap && amount <= cap - paid", "amount <= cap"),
    ("a cap that cannot be reached", "amount <= cap - paid", "amount < cap - paid"),
    ("a count that overflows", "paid <= cap && amount <= cap - paid", "paid + amount <= cap"),
    ("nothing is counted", "            paidOnDay[today] = paid + amount;\n        }\n    }", "        }\n    }"),
    ("only the last is counted", "= paid + amount;\n        }\n    }", "= amount;\n        }\n    }"),
    ("a day of an hour", "block.timestamp / 1 days", "block.timestamp / 1 hours"),
    ("a day for ever", "block.timestamp / 1 days", "block.timestamp / 36500000 days"),
    ("a cap for all tokens", "uint256 cap = dailyCap[token];", "uint256 cap = type(uint256).max;"),
    ("a count for all tokens", "return _paidOnDay[token]", "return _paidOnDay[address(0)]"),
)
REENTRANCY = (
    ("pay is not locked", _PAY, _PAY.replace("nonReentrant ", "")),
    ("void is not locked", _VOID, _VOID.replace("nonReentrant ", "")),
    ("deposit is not locked", "external nonReentrant whenNotPaused {", "external whenNotPaused {"),
    ("withdraw is not locked", "external nonReentrant onlyOwner {", "external onlyOwner {"),
    ("money moves first", f"{_RECORD}{_SEND}", f"{_SEND}{_RECORD}"),
)
DEPOSITS = (
    ("for nobody", 'require(bytes(agent).length > 0, "escrow: no agent");', ""),
    ("a name without end", 'require(bytes(agent).length <= MOST_AGENT_BYTES, "escrow: agent too long");', ""),
    ("a name too short", "MOST_AGENT_BYTES = 1024", "MOST_AGENT_BYTES = 1023"),
    ("of nothing", 'require(amount > 0, "escrow: zero amount");\n\n', ""),
    ("nothing arrived", 'require(received > 0, "escrow: nothing arrived");', ""),
    ("what was asked for is credited", "token, agent, received);", "token, agent, amount);"),
    ("what was there is credited", "balanceOf(address(this)) - before;", "balanceOf(address(this));"),
    ("what a token answers is ignored", "IERC20(token).safeTransferFrom(", "IERC20(token).transferFrom("),
    ("no event of a deposit", "emit Deposited(msg.sender, token, agent, received);", ""),
)
RESCUE = (
    ("pay while paused", _PAY, _PAY.replace(" whenNotPaused", "")),
    ("deposit while paused", "external nonReentrant whenNotPaused {", "external nonReentrant {"),
    (
        "no withdrawal while paused",
        "external nonReentrant onlyOwner {",
        "external nonReentrant onlyOwner whenNotPaused {",
    ),
    ("no event of a withdrawal", "emit Withdrawn(token, to, amount);", ""),
    ("a withdrawal counts", "emit Withdrawn(token, to, amount);", "_countAgainstCap(token, amount);"),
)
VOIDING = (
    ("anybody submits a void", _VOID, _VOID.replace(" onlyRelayer", "")),
    ("no void while paused", _VOID, _VOID.replace("onlyRelayer", "onlyRelayer whenNotPaused")),
    ("a void counts as paid", "_settle(paymentId, Status.Void,", "_settle(paymentId, Status.Paid,"),
    ("a void changes nothing", "_settle(paymentId, Status.Void,", "_settle(paymentId, Status.None,"),
    ("another type of a void", '"Void(bytes32 paymentId)"', '"Void(bytes32 id)"'),
    ("the id is not signed", "abi.encode(VOID_TYPE_HASH, paymentId)", "abi.encode(VOID_TYPE_HASH, bytes32(0))"),
    ("the payment's type for voids", "VOID_TYPE_HASH, paymentId", "PAYMENT_TYPE_HASH, paymentId"),
    ("a void id is settled again", _FRESH, _FRESH.replace("== Status.None", "!= Status.Paid")),
    ("no event of a void", "emit Voided(paymentId);", ""),
)
_LIMITS = "AuthorizationLimits(most, reserve, true)"
_DIGEST_ITEMS = (
    "asked.to,\n                asked.value,\n                asked.validAfter,\n                asked.validBefore,"
)
AUTHORIZATIONS = (
    ("authorized while paused", "external view whenNotPaused returns (bytes4)", "external view returns (bytes4)"),
    ("to anybody, of anything", "_requireSendable(asked.token, asked.to, asked.value);", ""),
    ("without limits", "_requireWithinLimits(asked);\n", "\n"),
    ("a limit that cannot be reached", "asked.value <= limits.most", "asked.value < limits.most"),
    ("no limit of each", 'require(asked.value <= limits.most, "escrow: over authorization limit");', ""),
    ("no cap", "_requireWithinCap(asked.token, _paidOnDay[asked.token][_today()], asked.value);", ""),
    ("no reserve", "&& held - asked.value >= limits.reserve", ""),
    ("a reserve that cannot be reached", "held - asked.value >= limits", "held - asked.value > limits"),
    ("more than there is", "asked.value <= held && held", "held"),
    (
        "somebody else's holdings",
        "balanceOf(address(this));\n        require(asked",
        "balanceOf(asked.to);\n        require(asked",
    ),
    (
        "valid for ever",
        'require(asked.validBefore <= block.timestamp + LONGEST_AUTHORIZATION, "escrow: valid too long");',
        "",
    ),
    ("valid too shortly", "LONGEST_AUTHORIZATION = 1 hours", "LONGEST_AUTHORIZATION = 59 minutes"),
    ("any digest", 'require(digest == _authorizationDigest(asked), "escrow: not this authorization");', ""),
    ("another authorization", "asked.nonce\n", "bytes32(0)\n"),
    ("the fields in another order", _DIGEST_ITEMS, _DIGEST_ITEMS.replace("asked.validAfter", "asked.value", 1)),
    (
        "of anybody's",
        "AUTHORIZATION_TYPE_HASH,\n                address(this)",
        "AUTHORIZATION_TYPE_HASH,\n                asked.to",
    ),
    ("another type", '"TransferWithAuthorization(address from', '"ReceiveWithAuthorization(address from'),
    ("the escrow's own domain", "IAuthorizingToken(asked.token).DOMAIN_SEPARATOR()", "_domainSeparatorV4()"),
    ("without a relayer", 'require(relayers[relayer], "escrow: not a relayer\'s signature");', ""),
    (
        "without the policy signer",
        'require(_hasSigned(digest, signature[RELAYER_SIGNED_BYTES:]), "escrow: wrong',
        'require(true, "escrow: wrong',
    ),
    ("an answer that means no", "return IERC1271.isValidSignature.selector;", "return 0xffffffff;"),
)
AUTHORIZATION_IDS = (
    ("what is settled is authorized", 'require(status[asked.nonce] == Status.None, "escrow: settled otherwise");', ""),
    ("what is paid is authorized", "status[asked.nonce] == Status.None", "status[asked.nonce] != Status.Void"),
    ("what is void is authorized", "status[asked.nonce] == Status.None", "status[asked.nonce] != Status.Paid"),
    (
        "what was authorized is paid",
        'require(!_isAuthorizationUsed(token, paymentId), "escrow: authorization used");',
        "",
    ),
    ("what was authorized is forgotten", _LIMITS, "AuthorizationLimits(most, reserve, most > 0)"),
    (
        "somebody else's authorizations",
        "authorizationState(address(this), paymentId)",
        "authorizationState(token, paymentId)",
    ),
    ("anybody sets limits", "uint256 reserve) external onlyOwner {", "uint256 reserve) external {"),
    ("limits stay", f"authorizationLimits[token] = {_LIMITS};", "authorizationLimits[token].wasSet = true;"),
    ("limits of a token without authorizations", "_isAuthorizationUsed(token, 0);", ""),
    ("no event of limits", "emit AuthorizationLimitsSet(token, most, reserve);", ""),
)
_BY_CONTRACT = "return SignatureChecker.isValidERC1271SignatureNowCalldata(policySigner, digest, signature);"
CONTRACT_SIGNER = (
    ("any contract signs", _BY_CONTRACT, "return policySigner.code.length > 0;"),
    ("no contract signs", _BY_CONTRACT, "return false;"),
    ("the relayer's contract signs", "NowCalldata(policySigner,", "NowCalldata(msg.sender,"),
)
OWNER = (
    ("anybody sets relayers", "bool enabled) external onlyOwner {", "bool enabled) external {"),
    (
        "anybody sets the policy signer",
        "setPolicySigner(address signer) external onlyOwner",
        "setPolicySigner(address signer) external",
    ),
    ("anybody sets caps", "uint256 cap) external onlyOwner {", "uint256 cap) external {"),
    ("anybody pauses", "pause() external onlyOwner {\n        _pause", "pause() external {\n        _pause"),
    ("anybody unpauses", "unpause() external onlyOwner {", "unpause() external {"),
    ("anybody withdraws", "external nonReentrant onlyOwner {", "external nonReentrant {"),
    ("the ownership can be given up", _RENOUNCE, "public override {\n        super.renounceOwnership();"),
    ("the deployer owns it", "Ownable(owner_)", "Ownable(msg.sender)"),
    ("relayers without end", 'require(relayers_.length <= MOST_RELAYERS_AT_FIRST, "escrow: too many relayers");', ""),
    ("a relayer too few", "MOST_RELAYERS_AT_FIRST = 64", "MOST_RELAYERS_AT_FIRST = 63"),
    ("no relayers at first", "_setRelayer(relayers_[index], true);", ""),
    ("the zero address relays", 'require(relayer != address(0), "escrow: zero address");', ""),
    ("the zero address signs", 'require(signer != address(0), "escrow: zero address");', ""),
    ("the policy signer relays", 'require(relayer != policySigner, "escrow: one key for two roles");', ""),
    ("a relayer signs", 'require(!relayers[signer], "escrow: one key for two roles");', ""),
    ("the policy signer stays", "policySigner = signer;\n", "\n"),
    ("no event of a relayer", "emit RelayerSet(relayer, enabled);", ""),
    ("no event of a policy signer", "emit PolicySignerSet(policySigner, signer);", ""),
    ("no event of a cap", "emit DailyCapSet(token, cap);", ""),
    ("caps stay", "dailyCap[token] = cap;\n", "\n"),
)

BREAKS = tuple(
    Break(*one, noticed_by)
    for noticed_by, some in {
        "test_two_keys.py": TWO_KEYS,
        "test_signatures.py": SIGNATURES,
        "test_paying.py": PAYING,
        "test_daily_cap.py": DAILY_CAP,
        "test_reentrancy.py": REENTRANCY + REENTRANCY_OF_LISTS,
        "test_deposits.py": DEPOSITS,
        "test_rescue.py": RESCUE,
        "test_voiding.py": VOIDING,
        "test_contract_signer.py": CONTRACT_SIGNER,
        "test_owner.py": OWNER,
        "test_authorizations.py": AUTHORIZATIONS,
        "test_authorization_ids.py": AUTHORIZATION_IDS,
        "test_paying_many.py": PAYING_MANY,
        "test_keys_of_lists.py": KEYS_OF_LISTS,
        "test_skipping.py": SKIPPING,
        "test_gas_of_lists.py": GAS_OF_LISTS,
    }.items()
    for one in some
)
