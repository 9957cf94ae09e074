-- What an owner finds to do beside the log. All of it is checked again by the transaction that carries it out.

-- name: read_pause
select actor, why, since
from pawl_pause
where consumer_id = $1::integer

-- name: releasable_holds
-- Of streams that nothing blocks any more. The n-th of each stream before the n+1-th of any, so that a long queue does not
-- hold up short ones.
select h.id, s.scope_id, r.id, p.topic, p.topic_id, p.partition, h.position_offset, h.leader_epoch, h.ingested_at,
       h.record_key, h.value, h.headers
from pawl_stream s
cross join unnest($2::integer[]) as r (id)
join pawl_progress p on p.id = r.id
cross join lateral (
    select x.*, row_number() over (order by x.position_offset) as n
    from pawl_hold x
    where x.scope_id = s.scope_id
      and x.stream = s.stream
      and x.progress_id = r.id
    order by x.position_offset
    limit $3::integer
) as h
where s.scope_id = any ($1::integer[])
  and s.blocked_by is null
order by h.n, r.id, h.position_offset
limit $3::integer

-- name: running_operations
select id, kind, state, total, done, rate, canary, actor, why, resumed_at, resumed_done
from pawl_operation
where consumer_id = $1::integer
  and state = 'running'
order by id

-- name: due_items
-- With the bytes of the last revision, or as they came. Of several records that block one stream, the one that it is
-- blocked by goes first.
select i.id, q.id, q.scope_id, p.id, p.topic, p.topic_id, p.partition, q.position_offset, q.leader_epoch, q.ingested_at,
       q.record_key, case when v.number is null then q.value else v.value end, q.headers,
       case when v.number is not null then uuid_send(q.fingerprint) end,
       case when v.number is not null then q.key end
from pawl_operation_item i
join pawl_quarantine q on q.id = i.quarantine_id
join pawl_progress p on p.id = i.progress_id
left join lateral (
    select number, value
    from pawl_revision
    where quarantine_id = q.id
    order by number desc
    limit 1
) as v on true
where i.operation_id = $1::bigint
  and i.done_at is null
  and i.progress_id = any ($2::integer[])
  and q.scope_id = any ($3::integer[])
  and q.status = 1
  and not exists (
      select
      from pawl_stream s
      where q.blocks
        and s.scope_id = q.scope_id
        and s.stream = q.stream
        and s.blocked_by <> q.id
  )
order by i.progress_id, i.position_offset
limit $4::integer

-- name: count_held
select (select count(*) from pawl_hold where scope_id = any ($1::integer[]))
     + (select count(*) from pawl_early where scope_id = any ($1::integer[]))
