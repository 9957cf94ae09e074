-- What people see of the quarantine, and of the streams behind it.

-- name: quarantine_matches
-- Stands in the queries below and in operation.sql as "matches". Ids come as JSON.
    c.name = :consumer
and (:ids is null or q.id in (select value from json_each(:ids)))
and (:route is null or s.route = :route)
and (:cause is null or q.cause = :cause)
and (:stream is null or q.stream = :stream)
and (:reason is null or instr(q.reason, :reason) > 0)
and (:since is null or q.quarantined_at >= :since)
and (:until is null or q.quarantined_at < :until)
and (:status = 0 or q.status = :status)

-- name: list_quarantine
select q.id, s.route, q.status, q.cause, q.reason, q.tries, q.replays, p.topic, p.topic_id, p.partition, q.position_offset,
       q.key_form, q.key_id, q.key, q.stream, q.quarantined_at,
       (select count(*)
        from pawl_stream t
        join pawl_hold h on h.scope_id = t.scope_id and h.stream = t.stream
        where t.blocked_by = q.id)
from pawl_quarantine q
join pawl_scope s on s.id = q.scope_id
join pawl_consumer c on c.id = s.consumer_id
join pawl_progress p on p.id = q.progress_id
where {{matches}}
  and q.id > :after
order by q.id
limit :limit

-- name: group_quarantine
select g.route, g.cause, g.items, g.streams, g.oldest, g.newest, f.reason
from (
    select s.route, q.cause, count(*) as items, count(distinct q.stream) as streams, min(q.quarantined_at) as oldest,
           max(q.quarantined_at) as newest, min(q.id) as first
    from pawl_quarantine q
    join pawl_scope s on s.id = q.scope_id
    join pawl_consumer c on c.id = s.consumer_id
    where c.name = ?
      and q.status = 1
    group by s.route, q.cause
) as g
join pawl_quarantine f on f.id = g.first
order by g.items desc, g.route, g.cause

-- name: count_waiting
-- From indexes alone.
select coalesce(sum((select count(*) from pawl_quarantine q where q.scope_id = s.id and q.status = 1)), 0),
       coalesce(sum((select count(*) from pawl_stream t where t.scope_id = s.id)), 0)
from pawl_scope s
join pawl_consumer c on c.id = s.consumer_id
where c.name = ?

-- name: consumer_of_quarantine
select c.name
from pawl_quarantine q
join pawl_scope s on s.id = q.scope_id
join pawl_consumer c on c.id = s.consumer_id
where q.id = ?

-- name: quarantined_record
select leader_epoch, ingested_at, record_key, record_key is null, value, value is null, headers
from pawl_quarantine
where id = ?

-- name: list_revisions
select number, value, value is null, actor, why, at
from pawl_revision
where quarantine_id = ?
order by number

-- name: list_blocked_streams
select s.route, t.stream, coalesce(t.blocked_by, 0), count(h.id), t.since, min(h.held_at)
from pawl_stream t
join pawl_scope s on s.id = t.scope_id
join pawl_consumer c on c.id = s.consumer_id
left join pawl_hold h on h.scope_id = t.scope_id and h.stream = t.stream
where c.name = :consumer
group by s.route, t.scope_id, t.stream
order by t.since, s.route, t.stream
limit :limit
