-- Partitions in a named state.

-- name: raise_condition
insert into pawl_condition
    (consumer_id, topic_id, topic, partition, state, reason, hint, next_offset, log_start, log_end, since)
values ($1::integer, $2::uuid, $3::text, $4::integer, $5::text, $6::text, $7::text, $8::bigint, $9::bigint, $10::bigint,
        $11::timestamptz)
on conflict (consumer_id, topic_id, topic, partition, state, ended) do nothing

-- name: condition_answer
select answer_to, answered_by, answered_why, answered_at
from pawl_condition
where consumer_id = $1::integer
  and topic_id = $2::uuid
  and topic = $3::text
  and partition = $4::integer
  and state = $5::text
  and ended = 0
  and answered_at is not null

-- name: clear_conditions
update pawl_condition
set ended = id,
    ended_at = $6::timestamptz
where consumer_id = $1::integer
  and topic_id = $2::uuid
  and topic = $3::text
  and partition = $4::integer
  and state = any ($5::text[])
  and ended = 0

-- name: standing_conditions
select state, reason, hint, next_offset, log_start, log_end, since
from pawl_condition
where consumer_id = $1::integer
  and topic_id = $2::uuid
  and topic = $3::text
  and partition = $4::integer
  and ended = 0
order by id
