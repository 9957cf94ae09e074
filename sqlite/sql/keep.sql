-- Streams that are blocked, and records that are kept, within THE transaction. See sqlite/keep.go. There is one writer: what
-- a statement finds stays so until the commit.

-- name: any_blocked
-- All that a transaction pays while no stream of a route is blocked.
select exists (select 1 from pawl_stream where scope_id = ?)

-- name: is_blocked
select exists (select 1 from pawl_stream where scope_id = :scope and stream = :stream)

-- name: block_stream
-- Only by what is open: a record that is read again after it was settled blocks nothing. A stream that is blocked already
-- stays blocked by the first; unblock_stream passes it on.
insert into pawl_stream (scope_id, stream, blocked_by, since)
select scope_id, stream, id, :now
from pawl_quarantine
where scope_id = :scope
  and progress_id = :row
  and position_offset = :offset
  and status = 1
  and blocks
on conflict (scope_id, stream) do update
set blocked_by = excluded.blocked_by
where pawl_stream.blocked_by is null

-- name: insert_hold
-- The same position again writes nothing. Nor does one that is open in quarantine: a record that is read again would else
-- be held behind itself.
insert into pawl_hold (
    scope_id, progress_id, code_id, mode, held_at,
    position_offset, leader_epoch, stream, key_form, key_id, key, record_key, value, headers, ingested_at
)
select :scope, :row, :code, :mode, :now,
       :offset, :leader_epoch, :stream, :key_form, :key_id, :key, :record_key, :value, :headers, :ingested
where not exists (
    select 1
    from pawl_quarantine
    where scope_id = :scope
      and progress_id = :row
      and position_offset = :offset
      and status = 1
)
on conflict (scope_id, progress_id, position_offset) do nothing

-- name: turn
-- Is it a held record's turn? Asked before anything in the transaction blocks its stream.
select s.scope_id, s.stream, s.blocked_by
from pawl_hold h
join pawl_stream s on s.scope_id = h.scope_id and s.stream = h.stream
where h.id = ?

-- name: release
delete from pawl_hold
where id = ?

-- name: free_stream
-- A stream that has neither blocker nor holds is free.
delete from pawl_stream
where scope_id = :scope
  and stream = :stream
  and blocked_by is null
  and not exists (select 1 from pawl_hold h where h.scope_id = :scope and h.stream = :stream)

-- name: resolve_quarantine
update pawl_quarantine
set status = :status,
    settled_at = :now,
    replays = replays + (:status = 2),
    tried_at = case when :status = 2 then :now else tried_at end
where id = :id
  and status = 1

-- name: blocked_stream
select scope_id, stream
from pawl_stream
where blocked_by = ?

-- name: unblock_stream
-- The stream passes to the next record that blocks it, if there is one.
update pawl_stream
set blocked_by = (
    select min(q.id)
    from pawl_quarantine q
    where q.scope_id = :scope
      and q.stream = :stream
      and q.status = 1
      and q.blocks)
where scope_id = :scope
  and stream = :stream

-- name: set_aside_again
-- A quarantined record was run again, to no avail.
update pawl_quarantine
set cause = :cause,
    reason = :reason,
    tries = :tries,
    replays = replays + 1,
    tried_at = :now
where id = :id
  and status = 1

-- name: carry_out_item
update pawl_operation_item
set outcome = :outcome,
    reason = :reason,
    done_at = :now
where id = :item
  and done_at is null

-- name: carry_out_operation
-- An operation that was stopped meanwhile has nothing more carried out.
update pawl_operation
set done = done + 1,
    failed = failed + (:outcome = 7),
    state = case when done + 1 = total then 'done' when done + 1 = canary then 'canary' else state end,
    ended_at = case when done + 1 = total then :now end
where id = (select operation_id from pawl_operation_item where id = :item)
  and state = 'running'

-- name: carry_out_act
select o.consumer_id, o.id, i.id, o.kind, o.actor, o.why, :now,
       json_object('quarantine', i.quarantine_id, 'outcome', :outcome_name)
from pawl_operation_item i
join pawl_operation o on o.id = i.operation_id
where i.id = :item
