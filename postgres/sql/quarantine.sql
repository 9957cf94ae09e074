-- What people see of the quarantine, and of the streams behind it.

-- name: quarantine_matches
-- Stands in the queries below and in operation.sql as "matches". Its parameters are the first nine of each.
    c.name = $1::text
and ($2::bigint[] is null or q.id = any ($2::bigint[]))
and ($3::text is null or s.route = $3::text)
and ($4::text is null or q.cause = $4::text)
and ($5::text is null or q.stream = $5::text)
and ($6::text is null or position($6::text in q.reason) > 0)
and ($7::timestamptz is null or q.quarantined_at >= $7::timestamptz)
and ($8::timestamptz is null or q.quarantined_at < $8::timestamptz)
and ($9::smallint = 0 or q.status = $9::smallint)

-- name: list_quarantine
select q.id, s.route, q.status, q.cause, q.reason, q.tries, q.replays, p.topic, p.topic_id, p.partition, q.position_offset,
       q.key, q.stream, q.quarantined_at,
       (select count(*)
        from pawl_stream t
        join pawl_hold h on h.scope_id = t.scope_id and h.stream = t.stream
        where t.blocked_by = q.id)
from pawl_quarantine q
join pawl_scope s on s.id = q.scope_id
join pawl_consumer c on c.id = s.consumer_id
join pawl_progress p on p.id = q.progress_id
where {{matches}}
  and q.id > $10::bigint
order by q.id
limit $11::integer

-- name: group_quarantine
select g.route, g.cause, g.items, g.streams, g.oldest, g.newest, f.reason
from (
    select s.route, q.cause, count(*) as items, count(distinct q.stream) as streams, min(q.quarantined_at) as oldest,
           max(q.quarantined_at) as newest, min(q.id) as first
    from pawl_quarantine q
    join pawl_scope s on s.id = q.scope_id
    join pawl_consumer c on c.id = s.consumer_id
    where c.name = $1::text
      and q.status = 1
    group by s.route, q.cause
) as g
join pawl_quarantine f on f.id = g.first
order by g.items desc, g.route, g.cause

-- name: count_waiting
-- From indexes alone.
select coalesce(sum(q.n), 0)::bigint, coalesce(sum(t.n), 0)::bigint
from pawl_consumer c
join pawl_scope s on s.consumer_id = c.id
cross join lateral (select count(*) as n from pawl_quarantine where scope_id = s.id and status = 1) as q
cross join lateral (select count(*) as n from pawl_stream where scope_id = s.id) as t
where c.name = $1::text

-- name: consumer_of_quarantine
select c.name
from pawl_quarantine q
join pawl_scope s on s.id = q.scope_id
join pawl_consumer c on c.id = s.consumer_id
where q.id = $1::bigint

-- name: quarantined_record
select leader_epoch, ingested_at, record_key, value, headers
from pawl_quarantine
where id = $1::bigint

-- name: list_revisions
select number, value, actor, why, at
from pawl_revision
where quarantine_id = $1::bigint
order by number

-- name: list_blocked_streams
select s.route, t.stream, coalesce(t.blocked_by, 0), count(h.id), t.since, min(h.held_at)
from pawl_stream t
join pawl_scope s on s.id = t.scope_id
join pawl_consumer c on c.id = s.consumer_id
left join pawl_hold h on h.scope_id = t.scope_id and h.stream = t.stream
where c.name = $1::text
group by s.route, t.scope_id, t.stream
order by t.since, s.route, t.stream
limit $2::integer
