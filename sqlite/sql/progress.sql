-- Ownership of partitions.

-- name: acquire_insert
-- The start is durable before the first record is read.
insert into pawl_progress (consumer_id, topic_id, partition, topic, next_offset, received_offset, created_at)
values (:consumer, :topic_id, :partition, :topic, :start, :start, :now)
on conflict (consumer_id, topic_id, partition) do nothing

-- name: acquire_raise
-- After this commit, no transaction of an earlier epoch commits. An owner that left without releasing has crashed or
-- frozen.
update pawl_progress
set epoch = epoch + 1,
    crashes = crashes + (owner is not null),
    ahead_offset = max(ahead_offset, received_offset),
    received_offset = next_offset,
    owner = :owner,
    topic = :topic,
    acquired_at = :now
where consumer_id = :consumer
  and topic_id = :topic_id
  and partition = :partition
returning id, epoch

-- name: move
-- An operator's decision. seq is raised as by a commit, so that it cannot be mistaken for one that was lost. After a move
-- back, what records came to before it does not stand: see 011_ahead.sql.
update pawl_progress
set next_offset = :next,
    received_offset = :next,
    ahead_offset = case when :next > next_offset then max(ahead_offset, received_offset, :next) else :next end,
    again_offset = case
        when :next > next_offset then again_offset
        else max(again_offset, ahead_offset, received_offset, next_offset)
    end,
    seq = seq + 1,
    crashes = 0
where id = :id
  and epoch = :epoch
  and owner = :token
returning seq, ahead_offset, again_offset

-- name: survive_attempt
-- One try less: those whose owners died of it stay.
update pawl_attempt
set attempts = attempts - 1
where progress_id = :id
  and position_offset = :offset
  and attempts > 0

-- name: read_progress
-- An owner that went carefully and died while it tried a record has advanced past others before: it counts as the two that
-- made it careful.
select epoch, coalesce(owner, ''), seq, next_offset,
       crashes + 2 * exists (
           select 1 from pawl_attempt a where a.progress_id = p.id and a.position_offset >= p.next_offset and a.attempts > 0
       ),
       ahead_offset, again_offset
from pawl_progress p
where id = ?

-- name: release_partition
update pawl_progress
set owner = null
where id = :id
  and epoch = :epoch
  and owner = :token

-- name: other_topic
-- A topic of the same name that was read before: this one was made since.
select 1
from pawl_progress
where consumer_id = :consumer
  and topic = :topic
  and partition = :partition
  and topic_id <> :topic_id
limit 1

-- name: note_attempt
insert into pawl_attempt (progress_id, position_offset, attempts, first_at, last_at)
values (:id, :offset, 1, :now, :now)
on conflict (progress_id, position_offset) do update
set attempts = attempts + 1,
    last_at = :now
returning attempts - 1

-- name: forget_attempts
-- Those that the position has passed mean nothing any more.
delete from pawl_attempt
where progress_id = :id
  and position_offset < :before
