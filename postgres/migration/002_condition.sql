insert into pawl_schema (version, name, applied_at) values (2, 'condition', now());

-- Partitions in a named state. A row is one time that a partition got into it, and stays when that is over: who decided
-- what, and why, is part of the history of the rows that were read afterwards.
create table pawl_condition (
    id bigint generated always as identity primary key,
    consumer_id integer not null references pawl_consumer (id),
    topic_id uuid not null,
    topic text not null,
    partition integer not null,
    state text not null,
    ended bigint not null default 0,
    reason text not null,
    hint text not null,
    next_offset bigint not null,
    log_start bigint not null,
    log_end bigint not null,
    since timestamptz not null,
    answer_to bigint,
    answered_by text,
    answered_why text,
    answered_at timestamptz,
    ended_at timestamptz,
    unique (consumer_id, topic_id, topic, partition, state, ended)
);
comment on column pawl_condition.ended is '0 while it lasts, then its id: so there is one of each that lasts';
comment on column pawl_condition.partition is '-1: the whole topic; with an empty topic: the whole group';
comment on column pawl_condition.answer_to is 'the offset to read on from; -1: from next_offset';
