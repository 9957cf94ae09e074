-- What people and tools ask for.

-- name: list_progress
select p.topic, p.topic_id, p.partition, p.next_offset, greatest(p.received_offset, p.next_offset), p.epoch, p.owner is not null, p.crashes, p.acquired_at, p.advanced_at
from pawl_progress p
join pawl_consumer c on c.id = p.consumer_id
where c.name = $1::text
order by p.topic, p.partition, p.id

-- name: list_conditions
select d.id, d.topic, d.topic_id, d.partition, d.state, d.reason, d.hint, d.next_offset, d.log_start, d.log_end, d.since,
       d.answer_to, d.answered_by, d.answered_why, d.answered_at
from pawl_condition d
join pawl_consumer c on c.id = d.consumer_id
where c.name = $1::text
  and d.ended = 0
order by d.id

-- name: answer_condition
-- What halts nothing is over once someone has seen it.
update pawl_condition
set answer_to = $2::bigint,
    answered_by = $3::text,
    answered_why = $4::text,
    answered_at = $5::timestamptz,
    ended = case when state = any ($6::text[]) then 0 else id end,
    ended_at = case when state = any ($6::text[]) then null else $5::timestamptz end
where id = $1::bigint
  and ended = 0
returning id

-- name: audit_answer
select pawl_note_acts(consumer_id, null, 'answer ' || state, answered_by, answered_why, answered_at, array[null]::bigint[],
                      array[json_build_object('condition', id, 'to', answer_to)])
from pawl_condition
where id = $1::bigint
