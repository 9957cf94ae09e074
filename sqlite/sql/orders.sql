-- What an owner finds to do beside the log. All of it is checked again by the transaction that carries it out. The driver
-- does not tell an empty blob from none, hence "is null".

-- name: read_pause
select actor, why, since
from pawl_pause
where consumer_id = ?

-- name: releasable_holds
-- Of streams that nothing blocks any more. The n-th of each stream before the n+1-th of any, so that a long queue does not
-- hold up short ones. Lists come as JSON.
select h.id, h.scope_id, p.id, p.topic, p.topic_id, p.partition, h.position_offset, h.leader_epoch, h.ingested_at,
       h.record_key, h.record_key is null, h.value, h.value is null, h.headers
from (
    select x.id, row_number() over (partition by x.scope_id, x.stream, x.progress_id order by x.position_offset) as n
    from pawl_stream s
    join pawl_hold x on x.scope_id = s.scope_id and x.stream = s.stream
    where s.blocked_by is null
      and s.scope_id in (select value from json_each(:scopes))
      and x.progress_id in (select value from json_each(:rows))
) as turn
join pawl_hold h on h.id = turn.id
join pawl_progress p on p.id = h.progress_id
order by turn.n, h.progress_id, h.position_offset
limit :limit

-- name: running_operations
select id, kind, state, total, done, rate, canary, actor, why, resumed_at, resumed_done
from pawl_operation
where consumer_id = ?
  and state = 'running'
order by id

-- name: due_items
-- With the bytes of the last revision, or as they came. Of several records that block one stream, the one that it is
-- blocked by goes first.
select i.id, q.id, q.scope_id, p.id, p.topic, p.topic_id, p.partition, q.position_offset, q.leader_epoch, q.ingested_at,
       q.record_key, q.record_key is null, case when v.number is null then q.value else v.value end,
       case when v.number is null then q.value is null else v.value is null end, q.headers,
       case when v.number is not null then q.fingerprint end,
       case when v.number is not null then q.key end
from pawl_operation_item i
join pawl_quarantine q on q.id = i.quarantine_id
join pawl_progress p on p.id = i.progress_id
left join pawl_revision v
  on v.quarantine_id = q.id
 and v.number = (select max(number) from pawl_revision where quarantine_id = q.id)
where i.operation_id = :operation
  and i.done_at is null
  and i.progress_id in (select value from json_each(:rows))
  and q.scope_id in (select value from json_each(:scopes))
  and q.status = 1
  and not exists (
      select 1
      from pawl_stream s
      where q.blocks
        and s.scope_id = q.scope_id
        and s.stream = q.stream
        and s.blocked_by <> q.id
  )
order by i.progress_id, i.position_offset
limit :limit

-- name: count_held
select (select count(*) from pawl_hold where scope_id in (select value from json_each(:scopes)))
     + (select count(*) from pawl_early where scope_id in (select value from json_each(:scopes)))
