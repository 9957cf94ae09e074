insert into pawl_schema (version, name, applied_at) values (11, 'ahead', now());

-- Below this, records may have been settled ahead of the position, by an owner before: where streams are tried side by side. They
-- are read again, and what became of them stands. A move of the position sets it back: what an operator has read again is tried.
alter table pawl_progress add column ahead_offset bigint not null default 0;
comment on column pawl_progress.ahead_offset is 'the highest received_offset of owners before this one, since the position was last moved';
