insert into pawl_schema (version, name, applied_at)
values (4, 'gap', cast(strftime('%s', 'now') as integer) * 1000000);

-- Streams whose next event is missing, while later ones of it have come. Mostly there is none.
-- expected: the version that is missing.
-- due_at: when to look again, whatever comes.
create table pawl_gap (
    scope_id integer not null references pawl_scope (id),
    stream text not null,
    expected integer not null,
    since integer not null,
    due_at integer not null,
    primary key (scope_id, stream)
) strict, without rowid;
create index pawl_gap_due on pawl_gap (scope_id, due_at);

-- Records that came early, whole.
-- until_at: how long it waits for what is missing.
create table pawl_early (
    id integer primary key autoincrement,
    scope_id integer not null,
    stream text not null,
    version integer not null,
    progress_id integer not null,
    position_offset integer not null,
    leader_epoch integer not null,
    mode integer not null,
    code_id integer not null,
    key_form integer not null,
    key_id blob not null check (length(key_id) = 16),
    key blob,
    record_key blob,
    value blob,
    headers text,
    ingested_at integer not null,
    held_at integer not null,
    until_at integer not null,
    sealed_by text,
    unique (scope_id, progress_id, position_offset)
) strict;
create index pawl_early_order on pawl_early (scope_id, stream, version, id);

-- What corrects what: the key of the event that corrects this one. The key that is corrected may not have come yet: then its
-- row has no fingerprint but zero.
alter table pawl_decision add column superseded_by blob;
