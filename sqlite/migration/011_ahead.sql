insert into pawl_schema (version, name, applied_at)
values (11, 'ahead', cast(strftime('%s', 'now') as integer) * 1000000);

-- Below this, records may have been settled ahead of the position, by an owner before: where streams are tried side by side. They
-- are read again, and what became of them stands. A move back ends that: what an operator has read again is tried, also by owners
-- after the first, who may have died with it in hand. What it came to before the move cannot be told from what it came to since.
-- ahead_offset: the highest received_offset of owners before this one, since the position was last moved back.
-- again_offset: how far anything may have been settled when the position was moved back.
alter table pawl_progress add column ahead_offset integer not null default 0;
alter table pawl_progress add column again_offset integer not null default 0;
