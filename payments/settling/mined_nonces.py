"""Record which nonces of relayers blocks have used, as one node says: so a queue gets room without the watcher."""

from collections.abc import Mapping

from foundation.database import fetch_rows
from payments.models import Relayer

# Whether the chain is ahead of the database, the watcher finds out.
_FIND_STALE = """
    SELECT relayer.id, told.nonce
      FROM unnest(%(addresses)s::text[], %(nonces)s::bigint[]) AS told (address, nonce)
      JOIN payments_relayer AS relayer ON relayer.chain = %(chain)s AND relayer.address = told.address
     WHERE relayer.next_nonce >= told.nonce AND relayer.mined_nonce <> told.nonce
"""
# A payment that is being decided has locked its relayer. This waits for none of them: it would keep other payments from
# the relayers that it has locked by then.
_RECORD_FREE = """
    WITH free AS (
        SELECT id FROM payments_relayer WHERE id = ANY(%(ids)s::bigint[]) FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE payments_relayer AS relayer SET mined_nonce = told.nonce
      FROM unnest(%(ids)s::bigint[], %(nonces)s::bigint[]) AS told (id, nonce) JOIN free USING (id)
     WHERE relayer.id = told.id AND relayer.next_nonce >= told.nonce
 RETURNING relayer.id
"""


def record_mined_nonces(chain: str, mined_nonces: Mapping[str, int]) -> None:
    """Record the first nonce that no block has used, by the address of the relayer."""
    if not mined_nonces:
        return
    told = {"chain": chain, "addresses": list(mined_nonces), "nonces": list(mined_nonces.values())}
    stale = dict(fetch_rows(_FIND_STALE, told))
    if not stale:
        return
    recorded = {pk for (pk,) in fetch_rows(_RECORD_FREE, {"ids": list(stale), "nonces": list(stale.values())})}
    for pk, nonce in stale.items():
        if pk not in recorded:  # a busy relayer is waited for while no other one is held
            Relayer.objects.filter(pk=pk, next_nonce__gte=nonce).update(mined_nonce=nonce)
