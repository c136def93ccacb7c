"""Steps of docs/operate/promises-exceed-holdings.md: the owner's key takes more than the surplus."""

from tests.runbooks.installation import Company, block
from tests.runbooks.owner import as_owner, balance_of, escrow, is_searched, owner, send, token
from tests.runbooks.patience import wait_for
from tests.support.evm_escrow import call
from tests.support.runbook import blocks

PAGE = "docs/operate/promises-exceed-holdings.md"
_THIEF = "0x00000000000000000000000000000000000bad00"


def take(company: Company) -> str:
    """Take all that the escrow holds but one unit; returns the transaction."""
    units = balance_of(company, escrow(company)) - 1
    tx = as_owner(company, "withdraw(address,address,uint256)", token(company), _THIEF, units)
    wait_for(lambda: company.sql("SELECT FROM payments_chainstate WHERE stopped_reason <> ''"), "signing stops")
    return tx


def see_what_left(company: Company, tx: str) -> None:
    """See the outflow, and that more is promised than held."""
    wait_for(lambda: company.sql("SELECT FROM payments_outflow"), "the outflow is final")
    found = company.run(blocks(PAGE)[:1], status=1).answer
    assert [one["tx"] for one in found["outflows"]] == [tx]
    (surplus,) = (one["surplus"] for one in found["pools"] if one["asset"] == "USDC")
    assert surplus.startswith("-")


def book_and_cover(company: Company, tx: str) -> None:
    """Book it as a loss, and transfer as much to the escrow."""
    company.run(block(PAGE, "book_outflow"), TX=tx)
    units = balance_of(company, _THIEF)
    paid = send(company, owner(company), token(company), data=call("transfer(address,uint256)", escrow(company), units))
    wait_for(lambda: is_searched(company, paid), "the transfer is compared")


def begin_again(company: Company) -> None:
    company.run(block(PAGE, "verify_log"))
    company.run(block(PAGE, "start_chain"))
