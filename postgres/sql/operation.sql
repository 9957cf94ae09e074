-- What operators ask for. Lanes carry it out: see keep.sql.

-- name: lock_consumer
-- Two requests for one consumer come one after the other: else both would find the same item in no operation.
select id
from pawl_consumer
where name = $1::text
for no key update

-- name: in_no_operation
-- Stands in the queries below as "in_no_operation".
not exists (
    select
    from pawl_operation_item i
    join pawl_operation o on o.id = i.operation_id
    where i.quarantine_id = q.id
      and i.done_at is null
      and o.state in ('running', 'canary', 'paused')
)

-- name: plan_operation
select count(*)
from pawl_quarantine q
join pawl_scope s on s.id = q.scope_id
join pawl_consumer c on c.id = s.consumer_id
where {{matches}}
  and {{in_no_operation}}

-- name: insert_operation
insert into pawl_operation (consumer_id, kind, state, total, rate, canary, filter, actor, why, asked_at, resumed_at)
values ($1::integer, $2::text, 'running', 0, $3::double precision, $4::integer, $5::text, $6::text, $7::text, $8::timestamptz,
        $8::timestamptz)
returning id

-- name: insert_items
-- The number of items is frozen here.
insert into pawl_operation_item (operation_id, quarantine_id, progress_id, position_offset)
select $10::bigint, q.id, q.progress_id, q.position_offset
from pawl_quarantine q
join pawl_scope s on s.id = q.scope_id
join pawl_consumer c on c.id = s.consumer_id
where {{matches}}
  and {{in_no_operation}}
order by q.id
limit $11::bigint

-- name: count_items
update pawl_operation
set total = (select count(*) from pawl_operation_item where operation_id = $1::bigint)
where id = $1::bigint
returning total

-- name: insert_revision
insert into pawl_revision (quarantine_id, number, value, actor, why, at)
select i.quarantine_id, 1 + coalesce((select max(number) from pawl_revision where quarantine_id = i.quarantine_id), 0),
       $2::bytea, $3::text, $4::text, $5::timestamptz
from pawl_operation_item i
where i.operation_id = $1::bigint

-- name: archive_items
select pawl_resolve(i.quarantine_id, 4::smallint, $2::timestamptz)
from (select quarantine_id from pawl_operation_item where operation_id = $1::bigint order by quarantine_id) as i

-- name: archive_done
with items as (
    update pawl_operation_item
    set done_at = $2::timestamptz
    where operation_id = $1::bigint
)
update pawl_operation
set done = total,
    state = 'done',
    ended_at = $2::timestamptz
where id = $1::bigint

-- name: audit_archive
select pawl_note_acts(o.consumer_id, o.id, o.kind, o.actor, o.why, $2::timestamptz, i.ids, i.details)
from pawl_operation o
cross join (
    select array_agg(id order by id) as ids,
           array_agg(json_build_object('quarantine', quarantine_id) order by id) as details
    from pawl_operation_item
    where operation_id = $1::bigint
) as i
where o.id = $1::bigint

-- name: list_operations
select o.id, c.name, o.kind, o.state, o.total, o.done, o.failed, o.rate, o.canary, o.actor, o.why, o.asked_at, o.ended_at,
       o.resumed_at, o.resumed_done
from pawl_operation o
join pawl_consumer c on c.id = o.consumer_id
where c.name = $1::text
order by o.id desc
limit $2::integer

-- name: read_operation
select o.id, c.name, o.kind, o.state, o.total, o.done, o.failed, o.rate, o.canary, o.actor, o.why, o.asked_at, o.ended_at,
       o.resumed_at, o.resumed_done
from pawl_operation o
join pawl_consumer c on c.id = o.consumer_id
where o.id = $1::bigint

-- name: lock_operation
-- Waits for an item that is being carried out.
select state
from pawl_operation
where id = $1::bigint
for update

-- name: set_operation
update pawl_operation
set state = $2::text,
    resumed_at = case when $2::text = 'running' then $3::timestamptz else resumed_at end,
    resumed_done = case when $2::text = 'running' then done else resumed_done end,
    ended_at = case when $2::text = 'canceled' then $3::timestamptz end
where id = $1::bigint

-- name: audit_operation
select pawl_note_acts(consumer_id, id, $2::text, $3::text, $4::text, $5::timestamptz, array[null]::bigint[],
                      array[json_build_object('kind', kind, 'total', total, 'done', done, 'filter', filter::json)])
from pawl_operation
where id = $1::bigint

-- name: pause_consumer
insert into pawl_pause (consumer_id, actor, why, since)
values ($1::integer, $2::text, $3::text, $4::timestamptz)
on conflict (consumer_id) do update
set actor = excluded.actor,
    why = excluded.why,
    since = excluded.since

-- name: resume_consumer
delete from pawl_pause
where consumer_id = $1::integer
returning consumer_id

-- name: audit_consumer
select pawl_note_acts($1::integer, null, $2::text, $3::text, $4::text, $5::timestamptz, array[null]::bigint[],
                      array[null]::json[])
