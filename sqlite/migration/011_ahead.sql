insert into pawl_schema (version, name, applied_at)
values (11, 'ahead', cast(strftime('%s', 'now') as integer) * 1000000);

-- Below this, records may have been settled ahead of the position, by an owner before: where streams are tried side by side. They
-- are read again, and what became of them stands. A move of the position sets it back: what an operator has read again is tried.
-- ahead_offset: the highest received_offset of owners before this one, since the position was last moved.
alter table pawl_progress add column ahead_offset integer not null default 0;
