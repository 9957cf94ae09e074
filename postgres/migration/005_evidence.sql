insert into pawl_schema (version, name, applied_at) values (5, 'evidence', now());

-- Evidence is found by key, by stream and by event: docs/adr/0007-evidence-by-stream.md has the figures. Hashes, because an
-- index of 16 bytes a record is paid for by every record; this function, because it is the one that hash partitions rely
-- on and so never changes. An event id is there only where it is not the key itself.
create index pawl_decision_stream on pawl_decision (hashtextextended(stream, 0)) where stream is not null;
create index pawl_decision_event on pawl_decision (hashtextextended(event_id, 0)) where event_id is not null;
create index pawl_redelivery_key on pawl_redelivery (key_id) where key_id is not null;
