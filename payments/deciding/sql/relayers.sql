-- The relayer that submits a batch's payments on a chain.

-- Returns whether a relayer with nonces can take another payment, apart from the length of its queue: it is enabled, the
-- chain has not used its next nonce yet, and its gas money pays for another payment. The planner puts this in
-- place of the call.
CREATE OR REPLACE FUNCTION payments_is_ready(r payments_relayer) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT r.is_enabled AND r.is_funded AND r.next_nonce >= r.mined_nonce
       AND (r.funded_until IS NULL OR r.next_nonce < r.funded_until)
$$;

-- Returns the address of a relayer that needs gas money before it can submit another payment; null: none does.
CREATE OR REPLACE FUNCTION payments_relayer_in_need(p_chain text) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT r.address FROM payments_relayer r
         WHERE r.chain = p_chain AND r.is_enabled AND r.most_cost IS NOT NULL
           AND (NOT r.is_funded OR r.next_nonce >= r.funded_until OR r.next_nonce IS NULL)
         ORDER BY r.number LIMIT 1
    );
END $$;

-- Takes a relayer for up to so many payments, and returns it, with the number of payments that it has room for. If no relayer
-- has the gas money for another payment, `in_need` is the address of one of them.
--
-- A relayer that nobody has locked is taken, so that batches do not wait for the same nonce. If all are locked, one of them is
-- waited for if `p_waits`; otherwise, `is_held`. Short queues come first, where queues of up to 16 count as equal. A relayer
-- that is stuck far behind the others gets no payment, nor does one whose next nonce the chain has used: its payments could
-- not be included before the watcher has caught up. And no relayer gets more than its gas money pays for, with all that it
-- has in flight. Without `p_locks` it is the one of `payments_see_relayer`.
CREATE OR REPLACE FUNCTION payments_choose_relayer(
    p_chain text, p_payments int, p_waits boolean, p_locks boolean,
    OUT relayer payments_relayer, OUT room int, OUT in_need text, OUT is_held boolean
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    seen record;
    candidate record;
    locked bigint[];      -- those that somebody else has locked
    chosen_id bigint;
    longest_queue bigint;  -- null: no relayer is ready, or the chain has no nonces
BEGIN
    IF NOT p_locks THEN
        seen := payments_see_relayer(p_chain);
        relayer := seen.relayer;
        room := seen.room;
        in_need := seen.in_need;
        is_held := seen.is_held;
        RETURN;
    END IF;
    FOR candidate IN
        SELECT r.id, r.next_nonce - r.mined_nonce AS queue, 64 + min(r.next_nonce - r.mined_nonce) OVER () AS longest_queue
          FROM payments_relayer r WHERE r.chain = p_chain AND payments_is_ready(r)
         ORDER BY (r.next_nonce - r.mined_nonce) / 16, r.number
    LOOP
        longest_queue := candidate.longest_queue;
        CONTINUE WHEN candidate.queue > longest_queue;
        locked := locked || candidate.id;
        SELECT * INTO relayer FROM payments_relayer r
         WHERE r.id = candidate.id AND payments_is_ready(r) FOR UPDATE SKIP LOCKED;
        EXIT WHEN FOUND;
    END LOOP;
    IF relayer.id IS NULL AND longest_queue IS NULL THEN
        -- Without nonces there is no queue, and nothing to lock.
        SELECT * INTO relayer FROM payments_relayer r
         WHERE r.chain = p_chain AND r.is_enabled AND r.is_funded AND r.next_nonce IS NULL
         ORDER BY random() LIMIT 1;
        BEGIN
            room := CASE WHEN relayer.spendable IS NULL THEN p_payments
                         ELSE payments_gas_room(relayer.id, p_payments, p_waits) END;
            is_held := relayer.id IS NOT NULL AND room IS NULL;
            IF relayer.id IS NULL OR room = 0 THEN
                relayer := NULL;
                in_need := payments_relayer_in_need(p_chain);
            END IF;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            relayer := NULL;
        END;
        RETURN;
    END IF;
    is_held := relayer.id IS NULL AND NOT p_waits;
    IF relayer.id IS NULL AND p_waits THEN
        BEGIN
            chosen_id := locked[1 + floor(random() * cardinality(locked))];
            -- Choose first, then lock. A query that does both would, if its relayer does not fit any more after the
            -- wait, go on to another one and keep the first one locked: two such queries would wait for each other.
            SELECT * INTO relayer FROM payments_relayer r WHERE r.id = chosen_id FOR UPDATE;
            IF (payments_is_ready(relayer) AND relayer.next_nonce - relayer.mined_nonce <= longest_queue) IS NOT TRUE THEN
                relayer := NULL;
            END IF;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            relayer := NULL;
        END;
    END IF;
    room := least(p_payments, relayer.funded_until - relayer.next_nonce);
END $$;

-- Finds the relayer that a single payment would get now, if nobody else had locked one, and returns what
-- `payments_choose_relayer` does. Locks nothing.
CREATE OR REPLACE FUNCTION payments_see_relayer(
    p_chain text, OUT relayer payments_relayer, OUT room int, OUT in_need text, OUT is_held boolean
) LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT r.* INTO relayer
      FROM payments_relayer r
     WHERE r.chain = p_chain AND payments_is_ready(r)
       AND r.next_nonce - r.mined_nonce <= 64 + (
           SELECT min(o.next_nonce - o.mined_nonce) FROM payments_relayer o WHERE o.chain = p_chain AND payments_is_ready(o))
     ORDER BY (r.next_nonce - r.mined_nonce) / 16, r.number LIMIT 1;
    IF relayer.id IS NULL THEN
        SELECT r.* INTO relayer FROM payments_relayer r
         WHERE r.chain = p_chain AND r.is_enabled AND r.is_funded AND r.next_nonce IS NULL
           AND (r.spendable IS NULL OR payments_gas_left(r.id) >= r.most_cost)
         ORDER BY r.number LIMIT 1;
    END IF;
    IF relayer.id IS NULL THEN
        in_need := payments_relayer_in_need(p_chain);
    ELSE
        room := 1;
    END IF;
    is_held := false;
END $$;
