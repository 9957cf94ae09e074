-- What operators ask for. Lanes carry it out: see keep.sql.

-- name: find_consumer
select id
from pawl_consumer
where name = ?

-- name: in_no_operation
-- Stands in the queries below as "in_no_operation".
not exists (
    select 1
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
values (:consumer, :kind, 'running', 0, :rate, :canary, :filter, :by, :why, :at, :at)
returning id

-- name: insert_items
-- The number of items is frozen here.
insert into pawl_operation_item (operation_id, quarantine_id, progress_id, position_offset)
select :operation, q.id, q.progress_id, q.position_offset
from pawl_quarantine q
join pawl_scope s on s.id = q.scope_id
join pawl_consumer c on c.id = s.consumer_id
where {{matches}}
  and {{in_no_operation}}
order by q.id
limit :limit

-- name: count_items
update pawl_operation
set total = (select count(*) from pawl_operation_item where operation_id = :operation)
where id = :operation
returning total

-- name: insert_revision
insert into pawl_revision (quarantine_id, number, value, actor, why, at)
select i.quarantine_id, 1 + coalesce((select max(number) from pawl_revision where quarantine_id = i.quarantine_id), 0),
       :value, :by, :why, :at
from pawl_operation_item i
where i.operation_id = :operation

-- name: items
select quarantine_id
from pawl_operation_item
where operation_id = ?
order by quarantine_id

-- name: archive_items
update pawl_operation_item
set done_at = :at
where operation_id = :operation

-- name: archive_operation
update pawl_operation
set done = total,
    state = 'done',
    ended_at = :at
where id = :operation

-- name: archive_acts
select o.consumer_id, o.id, i.id, o.kind, o.actor, o.why, :at, json_object('quarantine', i.quarantine_id)
from pawl_operation_item i
join pawl_operation o on o.id = i.operation_id
where o.id = :operation
order by i.id

-- name: list_operations
select o.id, c.name, o.kind, o.state, o.total, o.done, o.failed, o.rate, o.canary, o.actor, o.why, o.asked_at, o.ended_at,
       o.resumed_at, o.resumed_done
from pawl_operation o
join pawl_consumer c on c.id = o.consumer_id
where c.name = :consumer
order by o.id desc
limit :limit

-- name: read_operation
select o.id, c.name, o.kind, o.state, o.total, o.done, o.failed, o.rate, o.canary, o.actor, o.why, o.asked_at, o.ended_at,
       o.resumed_at, o.resumed_done
from pawl_operation o
join pawl_consumer c on c.id = o.consumer_id
where o.id = ?

-- name: operation_state
select state
from pawl_operation
where id = ?

-- name: set_operation
update pawl_operation
set state = :state,
    resumed_at = case when :state = 'running' then :at else resumed_at end,
    resumed_done = case when :state = 'running' then done else resumed_done end,
    ended_at = case when :state = 'canceled' then :at end
where id = :operation

-- name: operation_act
select consumer_id, id, null, :what, :by, :why, :at,
       json_object('kind', kind, 'total', total, 'done', done, 'filter', json(filter))
from pawl_operation
where id = :operation

-- name: pause_consumer
insert into pawl_pause (consumer_id, actor, why, since)
values (:consumer, :by, :why, :at)
on conflict (consumer_id) do update
set actor = excluded.actor,
    why = excluded.why,
    since = excluded.since

-- name: resume_consumer
delete from pawl_pause
where consumer_id = :consumer

-- name: consumer_act
select :consumer, null, null, :what, :by, :why, :at, null
