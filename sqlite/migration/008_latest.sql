insert into pawl_schema (version, name, applied_at)
values (8, 'latest', cast(strftime('%s', 'now') as integer) * 1000000);

-- Evidence is asked for from its end: the latest of a stream, or what was the latest at a moment. A stream may have millions of
-- events, so the index has them by time.
drop index pawl_decision_stream;
create index pawl_decision_stream on pawl_decision (stream, scope_id, processed_at) where stream is not null;

-- Later copies of one key, the same.
drop index pawl_redelivery_key;
create index pawl_redelivery_key on pawl_redelivery (key_id, processed_at) where key_id is not null;

-- What was set aside of one key; and what operators did with it. That of one stream is in the order of ids already.
create index pawl_quarantine_key on pawl_quarantine (key_id) where key_id is not null;
create index pawl_audit_item on pawl_audit (item_id) where item_id is not null;
