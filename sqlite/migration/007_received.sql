insert into pawl_schema (version, name, applied_at)
values (7, 'received', cast(strftime('%s', 'now') as integer) * 1000000);

-- How far the owner of a partition had read when it last settled something: what is between it and next_offset was in hand. It
-- is written with the position, and costs no statement of its own. What an owner had in hand and lost is not received.
-- received_offset: the offset after the last one that the owner had received, as of its last commit; not below next_offset.
alter table pawl_progress add column received_offset integer not null default 0;
update pawl_progress set received_offset = next_offset;
