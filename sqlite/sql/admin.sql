-- What people and tools ask for.

-- name: list_progress
select p.topic, p.topic_id, p.partition, p.next_offset, max(p.received_offset, p.next_offset), p.epoch, p.owner is not null, p.crashes, p.acquired_at, p.advanced_at
from pawl_progress p
join pawl_consumer c on c.id = p.consumer_id
where c.name = ?
order by p.topic, p.partition, p.id

-- name: list_conditions
select d.id, d.topic, d.topic_id, d.partition, d.state, d.reason, d.hint, d.next_offset, d.log_start, d.log_end, d.since,
       d.answer_to, d.answered_by, d.answered_why, d.answered_at
from pawl_condition d
join pawl_consumer c on c.id = d.consumer_id
where c.name = ?
  and d.ended = 0
order by d.id

-- name: find_condition
select state
from pawl_condition
where id = ?
  and ended = 0

-- name: answer_condition
-- What halts nothing is over once someone has seen it.
update pawl_condition
set answer_to = :to,
    answered_by = :by,
    answered_why = :why,
    answered_at = :at,
    ended = case when :halts then 0 else id end,
    ended_at = case when :halts then null else :at end
where id = :id
  and ended = 0

-- name: answer_act
select consumer_id, null, null, 'answer ' || state, answered_by, answered_why, answered_at,
       json_object('condition', id, 'to', answer_to)
from pawl_condition
where id = ?
