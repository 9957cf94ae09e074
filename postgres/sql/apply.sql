-- The transaction of a batch, in order. See postgres/apply.go.

-- name: begin
-- Local to the transaction, so that a pooling proxy may hand the connection to anyone afterwards. The timeouts cut off an
-- owner that froze inside: its locks must not hold up the next one. The plan of the look-up is made for the arrays at hand:
-- a generic one, made while the table was small, would stay bad for ever.
begin isolation level read committed read write;
set local statement_timeout = '{{statement_timeout}}';
set local idle_in_transaction_session_timeout = '{{idle_timeout}}';
set local pawl.guard = '{{guard}}';
set local plan_cache_mode = force_custom_plan

-- name: end_of_look
-- From here on statements are small, or the handlers', which may be prepared and should not be planned anew each time.
set local plan_cache_mode to default

-- name: look
-- What is already decided. "limit 1" keeps it one probe of the primary key per key, whatever the statistics say: a new
-- consumer in a table full of others' decisions must not end in a scan of theirs.
select k.i,
       d.outcome,
       uuid_send(d.fingerprint),
       d.progress_id,
       d.position_offset,
       d.accepted::text,
       d.superseded_by
from unnest($1::integer[], $2::smallint[], $3::uuid[]) with ordinality as k (scope_id, key_form, key_id, i)
cross join lateral (
    select outcome, fingerprint, progress_id, position_offset, accepted, superseded_by
    from pawl_decision
    where scope_id = k.scope_id
      and key_form = k.key_form
      and key_id = k.key_id
    limit 1
) as d

-- name: look_ahead
-- What became of positions that were settled ahead. Key and fingerprint tell whether it was the same record.
select k.i, r.outcome, uuid_send(r.key_id), uuid_send(r.fingerprint)
from unnest($2::integer[], $3::bigint[]) with ordinality as k (scope_id, position_offset, i)
cross join lateral (
    select x.outcome, x.key_id, x.fingerprint
    from pawl_redelivery x
    where x.scope_id = k.scope_id
      and x.progress_id = $1::integer
      and x.position_offset = k.position_offset
    limit 1
) as r

-- name: guard
-- The value set by begin; anything else means that a handler ended the transaction.
select current_setting('pawl.guard', true)

-- name: insert_decision
-- Claim and evidence in one row. No "on conflict": a key that another transaction decided meanwhile must undo this one.
-- The arrays come in key order, so that two batches that share keys wait for each other instead of deadlocking. Unnested in
-- the select list they run side by side, and one that is null gives nulls; that is a quarter cheaper than from unnest(…).
insert into pawl_decision (
    progress_id, code_id, processed_at,
    scope_id, mode, key_form, key_id, key,
    fingerprint, outcome, position_offset, ingested_at,
    occurred_at, type_id, stream_type_id, stream,
    version, schema_version, reason, event_id,
    message_id, correlation_id, causation_id, version_before
)
select $1::integer, $2::integer, $3::timestamptz,
       unnest($4::integer[]), unnest($5::smallint[]), unnest($6::smallint[]), unnest($7::uuid[]), unnest($8::bytea[]),
       unnest($9::uuid[]), unnest($10::smallint[]), unnest($11::bigint[]), unnest($12::timestamptz[]),
       unnest($13::timestamptz[]), unnest($14::integer[]), unnest($15::integer[]), unnest($16::text[]),
       unnest($17::bigint[]), unnest($18::integer[]), unnest($19::text[]), unnest($20::text[]),
       unnest($21::text[]), unnest($22::text[]), unnest($23::text[]), unnest($24::bigint[])

-- name: insert_told_decision
-- As insert_decision, with what only some have: the content as it came, which counts as the same from then on where it was
-- edited ($25); what was changed, from what, to what.
insert into pawl_decision (
    progress_id, code_id, processed_at,
    scope_id, mode, key_form, key_id, key,
    fingerprint, outcome, position_offset, ingested_at,
    occurred_at, type_id, stream_type_id, stream,
    version, schema_version, reason, event_id,
    message_id, correlation_id, causation_id, version_before,
    accepted, row_affected, state_before, state_after
)
select $1::integer, $2::integer, $3::timestamptz,
       unnest($4::integer[]), unnest($5::smallint[]), unnest($6::smallint[]), unnest($7::uuid[]), unnest($8::bytea[]),
       unnest($9::uuid[]), unnest($10::smallint[]), unnest($11::bigint[]), unnest($12::timestamptz[]),
       unnest($13::timestamptz[]), unnest($14::integer[]), unnest($15::integer[]), unnest($16::text[]),
       unnest($17::bigint[]), unnest($18::integer[]), unnest($19::text[]), unnest($20::text[]),
       unnest($21::text[]), unnest($22::text[]), unnest($23::text[]), unnest($24::bigint[]),
       nullif(array_remove(array[unnest($25::uuid[])], null), '{}'), unnest($26::text[]), unnest($27::text[])::jsonb, unnest($28::text[])::jsonb

-- name: insert_redelivery
-- The same position again writes nothing.
insert into pawl_redelivery (
    progress_id, code_id, processed_at,
    scope_id, mode, position_offset, outcome, key_form, key_id, fingerprint, ingested_at, reason
)
select $1::integer, $2::integer, $3::timestamptz,
       k.scope_id, k.mode, k.position_offset, k.outcome, k.key_form, k.key_id, k.fingerprint, k.ingested_at, k.reason
from unnest(
    $4::integer[], $5::smallint[], $6::bigint[], $7::smallint[], $8::smallint[], $9::uuid[], $10::uuid[],
    $11::timestamptz[], $12::text[]
) as k (scope_id, mode, position_offset, outcome, key_form, key_id, fingerprint, ingested_at, reason)
on conflict do nothing

-- name: restate_redelivery
-- What was kept has come to something: the evidence of its position says what. Key and fingerprint stay as they came.
insert into pawl_redelivery (
    progress_id, code_id, processed_at,
    scope_id, mode, position_offset, outcome, key_form, key_id, fingerprint, ingested_at, reason
)
select $1::integer, $2::integer, $3::timestamptz,
       k.scope_id, k.mode, k.position_offset, k.outcome, k.key_form, k.key_id, k.fingerprint, k.ingested_at, k.reason
from unnest(
    $4::integer[], $5::smallint[], $6::bigint[], $7::smallint[], $8::smallint[], $9::uuid[], $10::uuid[],
    $11::timestamptz[], $12::text[]
) as k (scope_id, mode, position_offset, outcome, key_form, key_id, fingerprint, ingested_at, reason)
on conflict (scope_id, progress_id, position_offset) do update
set outcome = excluded.outcome,
    reason = excluded.reason,
    code_id = excluded.code_id,
    processed_at = excluded.processed_at

-- name: undecided
select pawl_undecided($1::integer[], $2::smallint[], $3::uuid[])

-- name: insert_quarantine
-- The same position again writes nothing, unless it was archived: who has it read again, and it fails again, sees it again.
insert into pawl_quarantine as q (
    progress_id, code_id, quarantined_at,
    scope_id, mode, position_offset, leader_epoch, cause, reason, tries, blocks, key_form, key_id, key, fingerprint, stream,
    record_key, value, headers, ingested_at
)
select $1::integer, $2::integer, $3::timestamptz,
       k.scope_id, k.mode, k.position_offset, k.leader_epoch, k.cause, k.reason, k.tries, k.blocks, k.key_form, k.key_id, k.key,
       k.fingerprint, k.stream, k.record_key, k.value, k.headers, k.ingested_at
from unnest(
    $4::integer[], $5::smallint[], $6::bigint[], $7::integer[], $8::text[], $9::text[], $10::integer[], $11::boolean[],
    $12::smallint[], $13::uuid[], $14::bytea[], $15::uuid[], $16::text[], $17::bytea[], $18::bytea[], $19::text[],
    $20::timestamptz[]
) as k (
    scope_id, mode, position_offset, leader_epoch, cause, reason, tries, blocks, key_form, key_id, key, fingerprint, stream,
    record_key, value, headers, ingested_at
)
on conflict (scope_id, progress_id, position_offset) do update
set status = 1,
    cause = excluded.cause,
    reason = excluded.reason,
    tries = excluded.tries,
    blocks = excluded.blocks,
    code_id = excluded.code_id,
    quarantined_at = excluded.quarantined_at,
    settled_at = null
where q.status = 4

-- name: advance
-- Position and fence, last before commit. Raises PW001 (fenced), PW002 (went back), PW003 (the handler ended it).
select pawl_advance($1::integer, $2::bigint, $3::text, $4::bigint, $5::bigint, $6::bigint, $7::timestamptz, $8::text)

-- name: commit
commit

-- name: rollback
rollback

-- name: check
-- What is deferred fails here, behind the handler that is to blame.
set constraints all immediate;
set constraints all deferred

-- name: mark
savepoint pawl_mark

-- name: move_mark
release savepoint pawl_mark;
savepoint pawl_mark

-- name: undo
rollback to savepoint pawl_mark
