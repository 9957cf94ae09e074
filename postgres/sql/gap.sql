-- Streams with a gap, and the early records that wait in them, within THE transaction. See postgres/gap.go.

-- name: any_gap
-- All that a transaction pays while no stream of its routes has a gap.
select exists (select from pawl_gap where scope_id = any ($1::integer[]))

-- name: which_gaps
-- Near: the batch brings what is missing, or one of those that wait.
select k.i, g.expected, g.since,
       (select count(*) from pawl_early e where e.scope_id = g.scope_id and e.stream = g.stream),
       k.waits or g.expected between k.lowest and k.highest
from unnest($1::integer[], $2::text[], $3::bigint[], $4::bigint[], $5::boolean[])
     with ordinality as k (scope_id, stream, lowest, highest, waits, i)
join pawl_gap g on g.scope_id = k.scope_id and g.stream = k.stream

-- name: early
-- What waits in gaps, with what is decided for its key already: the first, and as many more as $7 bytes are. A stream that is
-- blocked keeps what it has. Those in $3 are in the batch.
select b.i, d.outcome, uuid_send(d.fingerprint), d.progress_id, d.position_offset, d.accepted::text, d.superseded_by,
       e.id, e.stream, e.until_at <= $4::timestamptz,
       e.scope_id, p.id, p.topic, p.topic_id, p.partition, e.position_offset, e.leader_epoch, e.ingested_at, e.record_key, e.value,
       e.headers
from (
    select k.i, x.id, sum(x.bytes) over so_far as bytes, row_number() over so_far as n
    from unnest($1::integer[], $2::text[]) with ordinality as k (scope_id, stream, i)
    cross join lateral (
        select w.id, w.version,
               coalesce(octet_length(w.record_key), 0) + coalesce(octet_length(w.value), 0) + coalesce(octet_length(w.headers), 0) as bytes
        from pawl_early w
        where w.scope_id = k.scope_id
          and w.stream = k.stream
          and w.id <> all ($3::bigint[])
        order by w.version, w.id
        limit $5::integer
    ) as x
    where not exists (select from pawl_stream s where s.scope_id = k.scope_id and s.stream = k.stream)
    window so_far as (order by k.i, x.version, x.id)
) as b
join pawl_early e on e.id = b.id
join pawl_progress p on p.id = e.progress_id
left join pawl_decision d on d.scope_id = e.scope_id and d.key_form = e.key_form and d.key_id = e.key_id
where b.n = 1
   or b.bytes <= $7::bigint
order by b.i, e.version, e.id
limit $6::integer

-- name: release_early
select pawl_release_early($1::bigint[])

-- name: open_gaps
-- Which locks them, in the order of the arrays: two transactions wait for each other. $6 and $7 are those that were seen: see
-- pawl.SettledGap.
insert into pawl_gap as g (scope_id, stream, expected, since, due_at)
select unnest($1::integer[]), unnest($2::text[]), unnest($3::bigint[]), $4::timestamptz, unnest($5::timestamptz[])
on conflict (scope_id, stream) do update
set expected = greatest(g.expected, excluded.expected),
    due_at = case
        when (g.scope_id, g.stream) in (select * from unnest($6::integer[], $7::text[])) then excluded.due_at
        else least(g.due_at, excluded.due_at)
    end

-- name: insert_early
-- The same position again writes nothing. Nor does one that is open in quarantine.
insert into pawl_early (
    progress_id, code_id, held_at,
    scope_id, mode, position_offset, leader_epoch, stream, version, key_form, key_id, key, record_key, value, headers, ingested_at,
    until_at
)
select $1::integer, $2::integer, $3::timestamptz, k.*
from (
    select unnest($4::integer[]) as scope_id, unnest($5::smallint[]), unnest($6::bigint[]) as position_offset, unnest($7::integer[]),
           unnest($8::text[]), unnest($9::bigint[]), unnest($10::smallint[]), unnest($11::uuid[]), unnest($12::bytea[]),
           unnest($13::bytea[]), unnest($14::bytea[]), unnest($15::text[]), unnest($16::timestamptz[]), unnest($17::timestamptz[])
) as k
where not exists (
    select
    from pawl_quarantine q
    where q.scope_id = k.scope_id
      and q.progress_id = $1::integer
      and q.position_offset = k.position_offset
      and q.status = 1
)
on conflict (scope_id, progress_id, position_offset) do nothing

-- name: close_gaps
-- Of those that are locked.
delete from pawl_gap g
using unnest($1::integer[], $2::text[]) as k (scope_id, stream)
where g.scope_id = k.scope_id
  and g.stream = k.stream
  and not exists (select from pawl_early e where e.scope_id = g.scope_id and e.stream = g.stream)

-- name: supersede
-- Marks what a correction corrects, or claims its key before it has come.
insert into pawl_decision as d (
    progress_id, code_id, processed_at,
    scope_id, mode, key_form, key_id, key, fingerprint, outcome, position_offset, ingested_at, stream, reason, superseded_by
)
select $1::integer, $2::integer, $3::timestamptz,
       unnest($4::integer[]), unnest($5::smallint[]), unnest($6::smallint[]), unnest($7::uuid[]), unnest($8::bytea[]),
       '00000000-0000-0000-0000-000000000000', 5, unnest($9::bigint[]), unnest($10::timestamptz[]), unnest($11::text[]),
       'corrected before it came', unnest($12::bytea[])
on conflict (scope_id, key_form, key_id) do update
set superseded_by = excluded.superseded_by
where d.superseded_by is null

-- name: due_gaps
-- The first of those that wait, of each gap that is to be looked at.
select e.id, e.stream, e.until_at <= $3::timestamptz,
       e.scope_id, p.id, p.topic, p.topic_id, p.partition, e.position_offset, e.leader_epoch, e.ingested_at, e.record_key, e.value,
       e.headers
from pawl_gap g
cross join lateral (
    select *
    from pawl_early x
    where x.scope_id = g.scope_id
      and x.stream = g.stream
    order by x.version, x.id
    limit 1
) as e
join pawl_progress p on p.id = e.progress_id
where g.scope_id = any ($1::integer[])
  and g.due_at <= $3::timestamptz
  and e.progress_id = any ($2::integer[])
  and not exists (select from pawl_stream s where s.scope_id = g.scope_id and s.stream = g.stream)
order by g.due_at
limit $4::integer

-- name: list_gaps
select s.route, g.stream, g.expected, g.since, count(*), min(e.version), max(e.version), min(e.until_at)
from pawl_gap g
join pawl_scope s on s.id = g.scope_id
join pawl_consumer c on c.id = s.consumer_id
join pawl_early e on e.scope_id = g.scope_id and e.stream = g.stream
where c.name = $1::text
group by s.route, g.stream, g.expected, g.since
order by g.since, s.route, g.stream
limit $2::integer

-- name: gap_groups
select s.route, count(*), sum((select count(*) from pawl_early e where e.scope_id = g.scope_id and e.stream = g.stream)), min(g.since)
from pawl_gap g
join pawl_scope s on s.id = g.scope_id
join pawl_consumer c on c.id = s.consumer_id
where c.name = $1::text
group by s.route
order by s.route
