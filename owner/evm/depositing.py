"""Deposit as a customer's wallet does, and give coins away, with a key of our own: for test networks."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from chains.evm.adapter import EvmChain
from chains.evm.answers import Receipt, read_number
from chains.evm.contract_calls import encode_call
from chains.evm.fees import to_wei
from chains.port import MadeDeposit
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.money import AmountError, format_amount, from_base_units, to_base_units
from owner.evm.sending import Sender

_WITHOUT_LIMIT = 2**256 - 1


class Wallet:
    """An account with coins that deposits into a chain's escrow. `report` gets progress messages, never a secret."""

    def __init__(self, chain: EvmChain, secret: bytes, report: Callable[[str], None]) -> None:
        self._chain = chain
        self._sender = Sender(chain, secret, report)
        self._report = report

    def deposit(self, agent: str, *, asset: Asset, amount: Decimal) -> MadeDeposit:
        """Deposit for an agent, and wait until a block includes it. Missing tokens are minted if the token allows it.

        Raises:
            OperationRefused: the nodes are of another chain, the account has too little, or the escrow refuses.
            ChainUnavailable: no node answers.
        """
        served, owner = self._chain.served, self._sender.address
        self._sender.check_chain()
        token = served.tokens.get(asset)
        if token is None:
            raise OperationRefused(f"{asset} is not served on {served.chain.alias}.")
        try:
            units = to_base_units(amount, asset)
        except AmountError as error:
            raise OperationRefused(str(error)) from error
        self._provide(token, units, asset)
        if self._call(token, "allowance(address,address)", owner, served.escrow) < units:
            # Approved without a limit: this is the money of a test network.
            self._transact("Approving the escrow", token, "approve(address,uint256)", served.escrow, _WITHOUT_LIMIT)
        made = self._transact("Depositing", served.escrow, "deposit(string,address,uint256)", agent, token, units)
        return MadeDeposit(made.tx, made.block_number)

    def give(self, amounts: Mapping[str, Decimal]) -> dict[str, str]:
        """Send some of the chain's coin to each address; returns the transactions' ids by address.

        Raises:
            OperationRefused, ChainUnavailable: as `deposit` does.
        """
        self._sender.check_chain()
        return self._sender.transfer({address: to_wei(coins) for address, coins in amounts.items()})

    def _provide(self, token: str, units: int, asset: Asset) -> None:
        owner = self._sender.address
        held = self._call(token, "balanceOf(address)", owner)
        if held >= units:
            return
        try:
            self._transact("Minting test tokens", token, "mint(address,uint256)", owner, units - held)
        except OperationRefused as refusal:
            had = format_amount(from_base_units(held, asset))
            raise OperationRefused(f"{owner} has {had} {asset}, and the token mints it none: {refusal}") from refusal

    def _transact(self, what: str, to: str, signature: str, *arguments: Any) -> Receipt:
        self._report(f"{what} ...")
        try:
            return self._sender.send(
                bytes.fromhex(to.removeprefix("0x")), encode_call(signature, *arguments), self._sender.next_nonce()
            )
        except OperationRefused as refusal:
            raise OperationRefused(f"{what}: {refusal}") from refusal

    def _call(self, to: str, signature: str, *arguments: Any) -> int:
        call = {"to": to, "data": "0x" + encode_call(signature, *arguments).hex()}
        return self._chain.nodes.read([("eth_call", call, "latest")], lambda answers: read_number(answers[0]))
