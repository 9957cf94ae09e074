-- Ownership of partitions.

-- name: acquire_insert
-- The start is durable before the first record is read.
insert into pawl_progress (consumer_id, topic_id, partition, topic, next_offset, received_offset, created_at)
values ($1::integer, $2::uuid, $3::integer, $4::text, $5::bigint, $5::bigint, $6::timestamptz)
on conflict (consumer_id, topic_id, partition) do nothing

-- name: acquire_raise
-- Waits for a transaction of the old owner that holds the row; after it, none of that epoch commits. An owner that left
-- without releasing has crashed or frozen.
update pawl_progress
set epoch = epoch + 1,
    crashes = crashes + (owner is not null)::integer,
    ahead_offset = greatest(ahead_offset, received_offset),
    received_offset = next_offset,
    owner = $4::text,
    topic = $5::text,
    acquired_at = $6::timestamptz
where consumer_id = $1::integer
  and topic_id = $2::uuid
  and partition = $3::integer
returning id, epoch

-- name: move
-- An operator's decision. seq is raised as by a commit, so that it cannot be mistaken for one that was lost. Deaths and
-- attempts from before do not count against records that are read again. After a move back, what those came to before does not
-- stand: see 011_ahead.sql.
with moved as (
    update pawl_progress
    set next_offset = $4::bigint,
        received_offset = $4::bigint,
        ahead_offset = case when $4::bigint > next_offset then greatest(ahead_offset, received_offset, $4::bigint) else $4::bigint end,
        again_offset = case
            when $4::bigint > next_offset then again_offset
            else greatest(again_offset, ahead_offset, received_offset, next_offset)
        end,
        seq = seq + 1,
        crashes = 0
    where id = $1::integer
      and epoch = $2::bigint
      and owner = $3::text
    returning seq, ahead_offset, again_offset
), forgotten as (
    delete from pawl_attempt
    where progress_id = $1::integer
      and exists (select from moved)
)
select seq, ahead_offset, again_offset
from moved

-- name: note_attempt
select pawl_note_attempt($1::integer, $2::bigint, $3::text, $4::bigint, $5::bigint, $6::timestamptz)

-- name: survive_attempt
-- One try less: those whose owners died of it stay.
update pawl_attempt
set attempts = attempts - 1
where progress_id = $1::integer
  and position_offset = $2::bigint
  and attempts > 0

-- name: read_progress
-- An owner that went carefully and died while it tried a record has advanced past others before: it counts as the two that
-- made it careful.
select epoch, coalesce(owner, ''), seq, next_offset,
       crashes + case when exists (
           select from pawl_attempt a where a.progress_id = p.id and a.position_offset >= p.next_offset and a.attempts > 0
       ) then 2 else 0 end,
       ahead_offset, again_offset
from pawl_progress p
where id = $1::integer

-- name: resolve
-- Did that transaction commit? Asked under the row's lock: a commit that waits for a standby still holds it, and would
-- look absent to a plain select.
select epoch, coalesce(owner, ''), seq, next_offset
from pawl_progress
where id = $1::integer
for update

-- name: release_partition
-- Who gives back has not died of what it tried.
with released as (
    update pawl_progress
    set owner = null
    where id = $1::integer
      and epoch = $2::bigint
      and owner = $3::text
    returning id
)
delete from pawl_attempt
where progress_id = (select id from released)

-- name: other_topic
-- A topic of the same name that was read before: this one was made since.
select 1
from pawl_progress
where consumer_id = $1::integer
  and topic = $3::text
  and partition = $4::integer
  and topic_id <> $2::uuid
limit 1
