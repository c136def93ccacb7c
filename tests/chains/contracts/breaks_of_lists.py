"""What can be broken by hand in how `Escrow.sol` pays lists: a name, the text, and what takes its place."""

_SUBMITTED = (
    "Payment[] calldata payments,\n        uint256 deadline,\n        bytes calldata policySignature\n"
    "    ) external nonReentrant onlyRelayer whenNotPaused {"
)
_EXPIRES = 'require(block.timestamp <= deadline, "escrow: expired");\n        require(payments.length > 0'
_SIGNED = "_requireSigned(_hashBatch(payments, deadline), policySignature);"
_TYPES = "Batch(Payment[] payments,uint256 deadline)Payment(bytes32 paymentId,address token,address recipient,uint256"
_ITEM_TYPE = '"Payment(bytes32 paymentId,address token,address recipient,uint256 amount)"'
_BATCH = "BATCH_TYPE_HASH, keccak256(abi.encodePacked(hashes)), deadline"
_PAID = "emit Paid(paymentId, token, recipient, amount);\n        }"
_FRESH = 'if (status[paymentId] != Status.None) return "escrow: already settled";'
_IS_ASKED = "if (authorizationLimits[token].wasSet) {"
_CAP = 'if (!_isWithinCap(token, paid, amount)) return "escrow: over daily cap";'
_SETTLED = "status[paymentId] = Status.Paid;"
_COUNTED = "paidOnDay[today] = paid + amount;\n        }\n        if (_try"
_SENT = 'if (_tryToSend(token, recipient, amount)) return "";'
_UNCHECKED = "unchecked {\n            paidOnDay[today] = paid + amount;\n        }"
_RECORD = f"        {_SETTLED}\n        {_UNCHECKED}\n        {_SENT}\n"
_UNSENT = '        if (!_tryToSend(token, recipient, amount)) return "escrow: token refused";\n'
_SENT_FIRST = f'{_UNSENT}        {_SETTLED}\n        {_UNCHECKED}\n        if (amount > 0) return "";\n'
_RESTORED = "status[paymentId] = Status.None;\n        paidOnDay[today] = paid;\n"
_TRANSFER = 'require(IERC20(token).trySafeTransfer(to, amount), "escrow: token refused");'
_ENOUGH = 'require(gasleft() >= TOKEN_GAS + CALL_GAS, "escrow: too little gas");'
_ENOUGH_TO_ASK = 'require(gasleft() >= TOKEN_VIEW_GAS + CALL_GAS, "escrow: too little gas");'

PAYING_MANY = (
    ("a list never expires", _EXPIRES, "require(payments.length > 0"),
    ("a deadline of a list too early", _EXPIRES, _EXPIRES.replace("<=", "<")),
    ("a list while paused", _SUBMITTED, _SUBMITTED.replace(" whenNotPaused", "")),
    ("a list of nothing", 'require(payments.length > 0, "escrow: no payments");', ""),
    ("a list without end", 'require(payments.length <= MOST_TOGETHER, "escrow: too many payments");', ""),
    ("a list too short", "MOST_TOGETHER = 64", "MOST_TOGETHER = 63"),
    ("no event of a payment of a list", _PAID, "}"),
    ("the event of a list without its recipient", _PAID, _PAID.replace("recipient", "token")),
    ("the event of a list without its amount", _PAID, _PAID.replace("amount", "0")),
    ("the first of a list again and again", "_payOrSkip(payments[index], today);", "_payOrSkip(payments[0], today);"),
    ("a list counts as void", _SETTLED, _SETTLED.replace("Paid", "Void")),
    ("a list is not settled", _SETTLED, ""),
    ("a list is not counted", _COUNTED, "}\n        if (_try"),
    ("only the last of a list is counted", _COUNTED, _COUNTED.replace("paid + ", "")),
    ("the relayer is paid by a list", _SENT, _SENT.replace("recipient", "msg.sender")),
    ("a list sends too much", _SENT, _SENT.replace("amount)", "amount + 1)")),
    ("anybody sends for a list", 'require(msg.sender == address(this), "escrow: not the escrow");', ""),
    ("statuses of the first", "status[paymentIds[index]]", "status[paymentIds[0]]"),
    ("no statuses", "found[index] = status[paymentIds[index]];", ""),
)
KEYS_OF_LISTS = (
    ("anybody submits a list", _SUBMITTED, _SUBMITTED.replace(" onlyRelayer", "")),
    ("a list that nobody signed", _SIGNED, ""),
    ("another type of a list", _TYPES, _TYPES.replace("Batch(", "List(")),
    ("another type of a payment of a list", _TYPES, _TYPES.replace("address recipient", "address payee")),
    ("another type of an item", _ITEM_TYPE, _ITEM_TYPE.replace("amount", "value")),
    ("the type of a lone payment for items", "abi.encode(BATCHED_PAYMENT_TYPE_HASH,", "abi.encode(PAYMENT_TYPE_HASH,"),
    ("only the first of a list is signed", "HASH, payments[index])", "HASH, payments[0])"),
    ("the last of a list is not signed", "hashes[index] = keccak256(", "if (index < 2) hashes[index] = keccak256("),
    ("the deadline of a list is not signed", _BATCH, _BATCH.replace(", deadline", ", uint256(0)")),
    ("the lone payment's type for lists", _BATCH, _BATCH.replace("BATCH_", "VOID_")),
)
SKIPPING = (
    ("a list settles again", _FRESH, ""),
    ("a list settles again what is paid", _FRESH, _FRESH.replace("!= Status.None", "== Status.Void")),
    ("a list settles again what is void", _FRESH, _FRESH.replace("!= Status.None", "== Status.Paid")),
    ("a list asks no token", _IS_ASKED, "if (false) {"),
    ("a list asks every token", _IS_ASKED, "if (true) {"),
    ("a list asks for another id", "_tryToAsk(token, paymentId);", "_tryToAsk(token, 0);"),
    ("a list takes silence for no", 'if (!isAnswered) return "escrow: token refused";', ""),
    ("a list pays what was authorized", 'if (isUsed) return "escrow: authorization used";', ""),
    ("a list without a cap", _CAP, ""),
    ("a list pays anybody", 'if (!_isPayee(token, recipient)) return "escrow: recipient refused";', ""),
    ("a list pays nothing", 'if (amount == 0) return "escrow: zero amount";', ""),
    ("a list does not ask whether it was sent", _SENT, _SENT.replace("if (", "").replace("amount)) ", "amount); ")),
    ("what is refused stays settled", _RESTORED, _RESTORED.partition("\n")[2]),
    ("what is refused is void", _RESTORED, _RESTORED.replace("None", "Void")),
    ("what is refused stays counted", _RESTORED, _RESTORED.partition("\n")[0]),
    ("what is refused sets the count back", _RESTORED, _RESTORED.replace("= paid;", "= 0;")),
    ("nothing is said of what is skipped", "emit Skipped(paymentId, why);", ""),
    ("what a token answers to a list is ignored", _TRANSFER, "IERC20(token).trySafeTransfer(to, amount);"),
    ("an answer of a list is not awaited", _TRANSFER, "IERC20(token).transfer(to, amount);"),
    ("a token refuses and is believed", "} catch {\n            return false;", "} catch {\n            return true;"),
    ("what was not answered is unused", "return (false, false);", "return (true, false);"),
    ("what was used is unused", "return (true, answer);", "return (true, false);"),
)
GAS_OF_LISTS = (
    ("too little gas for a transfer goes unnoticed", _ENOUGH, ""),
    ("too little gas for a question goes unnoticed", _ENOUGH_TO_ASK, ""),
    ("what the EVM keeps back is forgotten", _ENOUGH, _ENOUGH.replace(" + CALL_GAS", "")),
    ("what it keeps back of a question is forgotten", _ENOUGH_TO_ASK, _ENOUGH_TO_ASK.replace(" + CALL_GAS", "")),
    ("what a call costs is forgotten", "TOKEN_GAS / 63 + 2_000", "TOKEN_GAS / 63"),
    ("a 64th is forgotten", "TOKEN_GAS / 63 + 2_000", "2_000"),
    ("a token takes all gas", "this.sendForList{gas: TOKEN_GAS}", "this.sendForList"),
    ("who is asked takes all gas", "this.askWhetherUsed{gas: TOKEN_VIEW_GAS}", "this.askWhetherUsed"),
    ("a token gets less", "TOKEN_GAS = 150_000", "TOKEN_GAS = 149_000"),
    ("who is asked gets less", "TOKEN_VIEW_GAS = 30_000", "TOKEN_VIEW_GAS = 28_000"),
    ("who is asked gets as much as for a transfer", "{gas: TOKEN_VIEW_GAS}", "{gas: TOKEN_GAS}"),
    ("no event of gas", "emit GasUsed(packed);", ""),
    ("gas since the beginning", "            before = left;\n", ""),
    ("four shares to a word", "(index % 8) * 32", "(index % 4) * 64"),
    ("shares over each other", "(index % 8) * 32", "0"),
    ("all shares in the first word", "packed[index / 8] |=", "packed[0] |="),
    ("a word too many", "(payments.length + 7) / 8", "payments.length / 8 + 1"),
)
REENTRANCY_OF_LISTS = (
    ("payMany is not locked", _SUBMITTED, _SUBMITTED.replace("nonReentrant ", "")),
    ("a list settles after it sent", _RECORD, _SENT_FIRST),
)
