insert into pawl_schema (version, name, applied_at) values (8, 'latest', now());

-- Evidence is asked for from its end: the latest of a stream, or what was the latest at a moment. A stream may have millions of
-- events, so the index has them by time. The scope is the seed of the hash: it takes no room, and a question about one consumer
-- does not read what another has decided about the same stream. docs/adr/0007-evidence-by-stream.md has the figures.
drop index pawl_decision_stream;
create index pawl_decision_stream on pawl_decision (hashtextextended(stream, scope_id), processed_at) where stream is not null;

-- Later copies of one key, the same.
drop index pawl_redelivery_key;
create index pawl_redelivery_key on pawl_redelivery (key_id, processed_at) where key_id is not null;

-- What was set aside of one stream, and of one key; and what operators did with it.
drop index pawl_quarantine_stream;
create index pawl_quarantine_stream on pawl_quarantine (scope_id, stream, id);
create index pawl_quarantine_key on pawl_quarantine (key_id) where key_id is not null;
create index pawl_audit_item on pawl_audit (item_id) where item_id is not null;
