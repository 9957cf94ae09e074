insert into pawl_schema (version, name, applied_at)
values (5, 'evidence', cast(strftime('%s', 'now') as integer) * 1000000);

-- Evidence is found by key, by stream and by event. An event id is there only where it is not the key itself.
create index pawl_decision_stream on pawl_decision (stream) where stream is not null;
create index pawl_decision_event on pawl_decision (event_id) where event_id is not null;
create index pawl_redelivery_key on pawl_redelivery (key_id) where key_id is not null;
