"""May anything be signed on a chain now? The answer that payments, renewals and voids share."""

from datetime import timedelta

import pytest

from chains.port import ChainUnavailable, SignerUnavailable
from foundation.kernel.times import utc_now
from payments.deciding.known import ChainRecord
from payments.deciding.signing_conditions import if_fresh, require_signable
from payments.models import ChainState

NOW = utc_now()
AGE = timedelta(seconds=60)
MILLISECOND = timedelta(milliseconds=1)


def seen(*, at=NOW, mismatch="", stopped=""):
    return ChainRecord(observed_at=at, state="{}", mismatch=mismatch, stopped_reason=stopped)


def ask(chain, *, is_signing=True, moves_money=True):
    return require_signable(chain, is_signing=is_signing, at=NOW, max_age=AGE, moves_money=moves_money)


def test_a_chain_that_is_known_well_is_signed_on():
    assert ask(seen()) == seen()


def test_what_the_orm_reads_is_asked_about_in_the_same_way():
    row = ChainState(chain="eip155:1", state={}, observed_at=NOW, mismatch="", stopped_reason="")

    assert ask(row) is row
    row.mismatch = "Another escrow."
    with pytest.raises(ChainUnavailable):
        ask(row)


@pytest.mark.parametrize("moves_money", [True, False])
def test_nothing_is_signed_while_the_signer_is_out_of_service(moves_money):
    with pytest.raises(SignerUnavailable):
        ask(seen(), is_signing=False, moves_money=moves_money)


@pytest.mark.parametrize("moves_money", [True, False])
@pytest.mark.parametrize("chain", [None, seen(at=NOW - AGE - MILLISECOND), seen(at=NOW + AGE)])
def test_nothing_is_signed_by_what_is_missing_too_old_or_of_the_future(chain, moves_money):
    with pytest.raises(ChainUnavailable, match="not known well enough"):
        ask(chain, moves_money=moves_money)


def test_what_was_seen_is_good_up_to_its_age():
    assert ask(seen(at=NOW - AGE))
    assert if_fresh(seen(at=NOW - AGE), at=NOW, max_age=AGE)
    assert if_fresh(seen(at=NOW - AGE - MILLISECOND), at=NOW, max_age=AGE) is None


@pytest.mark.parametrize("chain", [seen(mismatch="Another escrow."), seen(stopped="Money is missing.")])
def test_on_a_chain_with_trouble_only_what_moves_no_money_is_signed(chain):
    with pytest.raises(ChainUnavailable):
        ask(chain)

    assert ask(chain, moves_money=False) is chain


def test_the_signer_is_asked_about_first_then_the_trouble_then_the_age():
    chain = seen(at=NOW - AGE - MILLISECOND, mismatch="Another escrow.", stopped="Money is missing.")

    with pytest.raises(SignerUnavailable):
        ask(chain, is_signing=False)
    with pytest.raises(ChainUnavailable, match="not as it is configured"):
        ask(chain)
