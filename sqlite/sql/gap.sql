-- Streams with a gap, and the early records that wait in them, within THE transaction. See sqlite/gap.go. There is one
-- writer: what a statement finds stays so until the commit.

-- name: any_gap
-- All that a transaction pays while no stream of a route has a gap.
select exists (select 1 from pawl_gap where scope_id = ?)

-- name: gap
select g.expected, g.since, (select count(*) from pawl_early e where e.scope_id = g.scope_id and e.stream = g.stream)
from pawl_gap g
where g.scope_id = :scope
  and g.stream = :stream

-- name: early
-- What waits in a gap, with what is decided for its key already. A stream that is blocked keeps what it has.
select d.outcome, d.fingerprint, d.progress_id, d.position_offset, d.accepted, d.superseded_by,
       e.id, e.stream, e.until_at <= :now,
       e.scope_id, p.id, p.topic, p.topic_id, p.partition, e.position_offset, e.leader_epoch, e.ingested_at,
       e.record_key, e.record_key is null, e.value, e.value is null, e.headers
from pawl_early e
join pawl_progress p on p.id = e.progress_id
left join pawl_decision d on d.scope_id = e.scope_id and d.key_form = e.key_form and d.key_id = e.key_id
where e.scope_id = :scope
  and e.stream = :stream
  and e.id not in (select value from json_each(:in_batch))
  and not exists (select 1 from pawl_stream s where s.scope_id = e.scope_id and s.stream = e.stream)
order by e.version, e.id
limit :limit

-- name: release_early
delete from pawl_early
where id = ?

-- name: open_gap
-- See pawl.SettledGap.
insert into pawl_gap (scope_id, stream, expected, since, due_at)
values (:scope, :stream, :expected, :now, :due)
on conflict (scope_id, stream) do update
set expected = max(expected, excluded.expected),
    due_at = case when :seen then excluded.due_at else min(due_at, excluded.due_at) end

-- name: insert_early
-- The same position again writes nothing. Nor does one that is open in quarantine.
insert into pawl_early (
    scope_id, progress_id, code_id, mode, held_at,
    position_offset, leader_epoch, stream, version, key_form, key_id, key, record_key, value, headers, ingested_at, until_at
)
select :scope, :row, :code, :mode, :now,
       :offset, :leader_epoch, :stream, :version, :key_form, :key_id, :key, :record_key, :value, :headers, :ingested, :until
where not exists (
    select 1
    from pawl_quarantine
    where scope_id = :scope
      and progress_id = :row
      and position_offset = :offset
      and status = 1
)
on conflict (scope_id, progress_id, position_offset) do nothing

-- name: close_gap
delete from pawl_gap
where scope_id = :scope
  and stream = :stream
  and not exists (select 1 from pawl_early e where e.scope_id = :scope and e.stream = :stream)

-- name: supersede
-- Marks what a correction corrects, or claims its key before it has come.
insert into pawl_decision (
    scope_id, progress_id, code_id, mode, processed_at,
    key_form, key_id, key, fingerprint, outcome, position_offset, ingested_at, stream, reason, superseded_by
)
values (:scope, :row, :code, :mode, :now, :key_form, :key_id, :key, zeroblob(16), 5, :offset, :ingested, :stream,
        'corrected before it came', :by)
on conflict (scope_id, key_form, key_id) do update
set superseded_by = excluded.superseded_by
where pawl_decision.superseded_by is null

-- name: due_gaps
-- The first of those that wait, of each gap that is to be looked at.
select e.id, e.stream, e.until_at <= :now,
       e.scope_id, p.id, p.topic, p.topic_id, p.partition, e.position_offset, e.leader_epoch, e.ingested_at,
       e.record_key, e.record_key is null, e.value, e.value is null, e.headers
from pawl_gap g
join pawl_early e on e.id = (
    select x.id
    from pawl_early x
    where x.scope_id = g.scope_id
      and x.stream = g.stream
    order by x.version, x.id
    limit 1
)
join pawl_progress p on p.id = e.progress_id
where g.scope_id in (select value from json_each(:scopes))
  and g.due_at <= :now
  and e.progress_id in (select value from json_each(:rows))
  and not exists (select 1 from pawl_stream s where s.scope_id = g.scope_id and s.stream = g.stream)
order by g.due_at
limit :limit

-- name: list_gaps
select s.route, g.stream, g.expected, g.since, count(*), min(e.version), max(e.version), min(e.until_at)
from pawl_gap g
join pawl_scope s on s.id = g.scope_id
join pawl_consumer c on c.id = s.consumer_id
join pawl_early e on e.scope_id = g.scope_id and e.stream = g.stream
where c.name = :consumer
group by s.route, g.stream, g.expected, g.since
order by g.since, s.route, g.stream
limit :limit

-- name: gap_groups
select s.route, count(*), sum((select count(*) from pawl_early e where e.scope_id = g.scope_id and e.stream = g.stream)), min(g.since)
from pawl_gap g
join pawl_scope s on s.id = g.scope_id
join pawl_consumer c on c.id = s.consumer_id
where c.name = :consumer
group by s.route
order by s.route

-- name: hasten_gap
-- Its stream is free: what was passed over meanwhile is looked at again at once.
update pawl_gap
set due_at = since
where scope_id = :scope
  and stream = :stream
  and not exists (select 1 from pawl_stream s where s.scope_id = :scope and s.stream = :stream)
