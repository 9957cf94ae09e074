insert into pawl_schema (version, name, applied_at) values (11, 'ahead', now());

-- Below this, records may have been settled ahead of the position, by an owner before: where streams are tried side by side. They
-- are read again, and what became of them stands. A move back ends that: what an operator has read again is tried, also by owners
-- after the first, who may have died with it in hand. What it came to before the move cannot be told from what it came to since.
alter table pawl_progress
    add column ahead_offset bigint not null default 0,
    add column again_offset bigint not null default 0;
comment on column pawl_progress.ahead_offset is 'the highest received_offset of owners before this one, since the position was last moved back';
comment on column pawl_progress.again_offset is 'how far anything may have been settled when the position was moved back';
