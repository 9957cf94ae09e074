-- Partitions in a named state.

-- name: raise_condition
insert into pawl_condition
    (consumer_id, topic_id, topic, partition, state, reason, hint, next_offset, log_start, log_end, since)
values (:consumer, :topic_id, :topic, :partition, :state, :reason, :hint, :next, :start, :end, :since)
on conflict (consumer_id, topic_id, topic, partition, state, ended) do nothing

-- name: condition_answer
select answer_to, answered_by, answered_why, answered_at
from pawl_condition
where consumer_id = :consumer
  and topic_id = :topic_id
  and topic = :topic
  and partition = :partition
  and state = :state
  and ended = 0
  and answered_at is not null

-- name: clear_condition
update pawl_condition
set ended = id,
    ended_at = :now
where consumer_id = :consumer
  and topic_id = :topic_id
  and topic = :topic
  and partition = :partition
  and state = :state
  and ended = 0

-- name: standing_conditions
select state, reason, hint, next_offset, log_start, log_end, since
from pawl_condition
where consumer_id = :consumer
  and topic_id = :topic_id
  and topic = :topic
  and partition = :partition
  and ended = 0
order by id
