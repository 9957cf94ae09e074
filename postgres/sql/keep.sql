-- Streams that are blocked, and records that are kept, within THE transaction. See postgres/keep.go and, for the functions,
-- migration/003_keep.sql.

-- name: any_blocked
-- All that a transaction pays while no stream of its routes is blocked: one probe of an index that is mostly empty.
select exists (select from pawl_stream where scope_id = any ($1::integer[]))

-- name: which_blocked
select k.i
from unnest($1::integer[], $2::text[]) with ordinality as k (scope_id, stream, i)
where exists (select from pawl_stream s where s.scope_id = k.scope_id and s.stream = k.stream)

-- name: block_streams
-- Only by what is open: a record that is read again after it was settled blocks nothing. A stream that is blocked already
-- stays blocked by the first; pawl_resolve passes it on.
insert into pawl_stream as s (scope_id, stream, blocked_by, since)
select distinct on (q.scope_id, q.stream) q.scope_id, q.stream, q.id, $2::timestamptz
from unnest($3::integer[], $4::bigint[]) as k (scope_id, position_offset)
join pawl_quarantine q
  on q.scope_id = k.scope_id
 and q.progress_id = $1::integer
 and q.position_offset = k.position_offset
where q.status = 1
  and q.blocks
order by q.scope_id, q.stream, q.position_offset
on conflict (scope_id, stream) do update
set blocked_by = excluded.blocked_by
where s.blocked_by is null

-- name: insert_hold
-- The same position again writes nothing. Nor does one that is open in quarantine: a record that is read again would else
-- be held behind itself.
insert into pawl_hold (
    progress_id, code_id, held_at,
    scope_id, mode, position_offset, leader_epoch, stream, key_form, key_id, key, record_key, value, headers, ingested_at
)
select $1::integer, $2::integer, $3::timestamptz,
       k.scope_id, k.mode, k.position_offset, k.leader_epoch, k.stream, k.key_form, k.key_id, k.key, k.record_key, k.value,
       k.headers, k.ingested_at
from unnest(
    $4::integer[], $5::smallint[], $6::bigint[], $7::integer[], $8::text[], $9::smallint[], $10::uuid[], $11::bytea[],
    $12::bytea[], $13::bytea[], $14::text[], $15::timestamptz[]
) as k (
    scope_id, mode, position_offset, leader_epoch, stream, key_form, key_id, key, record_key, value, headers, ingested_at
)
where not exists (
    select
    from pawl_quarantine q
    where q.scope_id = k.scope_id
      and q.progress_id = $1::integer
      and q.position_offset = k.position_offset
      and q.status = 1
)
order by k.scope_id, k.stream, k.position_offset
on conflict (scope_id, progress_id, position_offset) do nothing

-- name: turn
select pawl_turn($1::bigint)

-- name: release
select pawl_release($1::bigint)

-- name: resolve_quarantine
select pawl_resolve($1::bigint, $2::smallint, $3::timestamptz)

-- name: set_aside_again
select pawl_set_aside_again($1::bigint, $2::text, $3::text, $4::integer, $5::timestamptz)

-- name: carry_out
select pawl_carry_out($1::bigint, $2::smallint, $3::text, $4::text, $5::timestamptz)
