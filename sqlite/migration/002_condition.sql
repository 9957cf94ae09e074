insert into pawl_schema (version, name, applied_at)
values (2, 'condition', cast(strftime('%s', 'now') as integer) * 1000000);

-- Partitions in a named state. A row is one time that a partition got into it, and stays when that is over: who decided
-- what, and why, is part of the history of the rows that were read afterwards.
-- ended: 0 while it lasts, then its id: so there is one of each that lasts.
-- partition: -1: the whole topic; with an empty topic: the whole group.
-- answer_to: the offset to read on from; -1: from next_offset.
create table pawl_condition (
    id integer primary key autoincrement,
    consumer_id integer not null references pawl_consumer (id),
    topic_id blob not null check (length(topic_id) = 16),
    topic text not null,
    partition integer not null,
    state text not null,
    ended integer not null default 0,
    reason text not null,
    hint text not null,
    next_offset integer not null,
    log_start integer not null,
    log_end integer not null,
    since integer not null,
    answer_to integer,
    answered_by text,
    answered_why text,
    answered_at integer,
    ended_at integer,
    unique (consumer_id, topic_id, topic, partition, state, ended)
) strict;
