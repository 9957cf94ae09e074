-- The transaction of a batch, in order. See sqlite/apply.go. A row between "each" and "end" stands once for each record.

-- name: look
-- What is already decided. "cross join" keeps it one probe of the primary key per key, never the other way round.
select d.scope_id,
       d.key_form,
       d.key_id,
       d.outcome,
       d.fingerprint,
       d.progress_id,
       d.position_offset,
       d.accepted,
       d.superseded_by
from (values /* each */ (?, ?, ?) /* end */) as k
cross join pawl_decision as d
where d.scope_id = k.column1
  and d.key_form = k.column2
  and d.key_id = k.column3

-- name: look_ahead
-- What became of positions that were settled ahead. Key and fingerprint tell whether it was the same record.
select r.scope_id, r.position_offset, r.outcome, r.key_id, r.fingerprint
from (values /* each */ (?, ?, ?) /* end */) as k
cross join pawl_redelivery as r
where r.scope_id = k.column1
  and r.progress_id = k.column2
  and r.position_offset = k.column3

-- name: insert_decision
-- Claim and evidence in one row. No "on conflict": a key that is decided already must undo this transaction.
insert into pawl_decision (
    scope_id, progress_id, code_id, mode, processed_at,
    key_form, key_id, key, fingerprint, outcome, position_offset, ingested_at, occurred_at, type_id, stream_type_id, stream,
    version, schema_version, reason, event_id, message_id, correlation_id, causation_id, accepted,
    version_before, row_affected, state_before, state_after
)
values /* each */ (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) /* end */

-- name: insert_redelivery
-- The same position again writes nothing.
insert into pawl_redelivery (
    scope_id, progress_id, code_id, mode, processed_at,
    position_offset, outcome, key_form, key_id, fingerprint, ingested_at, reason
)
values /* each */ (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) /* end */
on conflict (scope_id, progress_id, position_offset) do nothing

-- name: restate_redelivery
-- What was kept has come to something: the evidence of its position says what. Key and fingerprint stay as they came.
insert into pawl_redelivery (
    scope_id, progress_id, code_id, mode, processed_at,
    position_offset, outcome, key_form, key_id, fingerprint, ingested_at, reason
)
values /* each */ (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) /* end */
on conflict (scope_id, progress_id, position_offset) do update
set outcome = excluded.outcome,
    reason = excluded.reason,
    code_id = excluded.code_id,
    processed_at = excluded.processed_at

-- name: insert_quarantine
-- The same position again writes nothing, unless it was archived: who has it read again, and it fails again, sees it again.
insert into pawl_quarantine (
    scope_id, progress_id, code_id, mode, quarantined_at,
    position_offset, leader_epoch, cause, reason, tries, blocks, key_form, key_id, key, fingerprint, stream, record_key, value,
    headers, ingested_at
)
values /* each */ (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) /* end */
on conflict (scope_id, progress_id, position_offset) do update
set status = 1,
    cause = excluded.cause,
    reason = excluded.reason,
    tries = excluded.tries,
    blocks = excluded.blocks,
    code_id = excluded.code_id,
    quarantined_at = excluded.quarantined_at,
    settled_at = null
where pawl_quarantine.status = 4

-- name: advance
-- Position and fence, last before commit. No row comes back to an owner that was overtaken, or that has seen more than is
-- here. Owners that died are forgotten when the position moves, not at any commit: where streams are tried side by side, each
-- that dies of a record has settled records of other streams before.
update pawl_progress
set next_offset = max(next_offset, :next),
    received_offset = max(next_offset, :next, :received),
    seq = seq + 1,
    crashes = case when :next > next_offset then 0 else crashes end,
    advanced_at = :now
where id = :id
  and epoch = :epoch
  and owner = :token
  and seq >= :seq
returning seq

-- name: find_name
select id
from pawl_name
where name = ?

-- name: insert_name
insert into pawl_name (name)
values (?)
returning id

-- name: mark
savepoint pawl_mark

-- name: undo
rollback to savepoint pawl_mark

-- name: unmark
release savepoint pawl_mark
