-- The same tables as PostgreSQL's, column for column. Ids of 16 bytes are blobs, times are microseconds since 1970 in UTC,
-- JSON is text.

-- What has been applied. Every migration records itself, so that any tool can apply it.
create table if not exists pawl_schema (
    version integer primary key,
    name text not null,
    applied_at integer not null
) strict;
insert into pawl_schema (version, name, applied_at)
values (1, 'core', cast(strftime('%s', 'now') as integer) * 1000000);

-- Names are interned: a decision row carries integers, not repeated text. Event types, stream types and code versions,
-- once each.
create table pawl_name (
    id integer primary key autoincrement,
    name text not null unique
) strict;

-- A consumer name belongs to one group of one cluster: positions and claims of another would not mean the same.
create table pawl_consumer (
    id integer primary key autoincrement,
    name text not null unique,
    cluster text not null,
    group_name text not null,
    created_at integer not null
) strict;

-- The scope of "once": consumer and route.
-- horizon_at: markers of events before this have been retired: without one, such an event is refused.
create table pawl_scope (
    id integer primary key autoincrement,
    consumer_id integer not null references pawl_consumer (id),
    route text not null,
    horizon_at integer,
    created_at integer not null,
    unique (consumer_id, route)
) strict;

-- One row per partition that a consumer has ever owned. It is the fence, the position, and the answer to "did that
-- commit?".
-- next_offset: every offset below it is settled.
-- epoch: raised at every assignment; a transaction of an older epoch does not commit.
-- seq: raised by every commit; behind what its owner has seen means that commits were lost.
-- owner: the token of the acquire that holds it, because epochs may repeat in a database that was restored; null when given
-- back in good order.
-- crashes: owners in a row that neither advanced nor gave back.
create table pawl_progress (
    id integer primary key autoincrement,
    consumer_id integer not null references pawl_consumer (id),
    topic_id blob not null check (length(topic_id) = 16),
    partition integer not null,
    topic text not null,
    next_offset integer not null check (next_offset >= 0),
    epoch integer not null default 0,
    seq integer not null default 0,
    owner text,
    crashes integer not null default 0,
    horizon_offset integer not null default 0,
    created_at integer not null,
    acquired_at integer,
    advanced_at integer,
    unique (consumer_id, topic_id, partition)
) strict;

-- The first terminal decision for a key within a scope: the claim and its evidence. Written once, never updated by the
-- path of a record.
-- key_form: 0: key_id is a hash of key; 1: key_id is the key, a UUID; 2: a ULID.
-- version: the version the event brought; after it is applied, the version of its stream.
-- accepted: fingerprints accepted beside the first, such as that of an edited record.
-- outcome: 1 applied, 2 duplicate of another event, 3 stale, 4 ignored, 5 superseded, 8 skipped by an operator.
create table pawl_decision (
    key_id blob not null check (length(key_id) = 16),
    fingerprint blob not null check (length(fingerprint) = 16),
    position_offset integer not null,
    version integer,
    version_before integer,
    occurred_at integer,
    ingested_at integer not null,
    processed_at integer not null,
    scope_id integer not null,
    progress_id integer not null,
    type_id integer,
    stream_type_id integer,
    code_id integer not null,
    schema_version integer,
    key_form integer not null,
    outcome integer not null check (outcome in (1, 2, 3, 4, 5, 8)),
    mode integer not null,
    key blob check ((key is null) = (key_form <> 0)),
    stream text,
    reason text,
    event_id text,
    message_id text,
    correlation_id text,
    causation_id text,
    row_affected text,
    state_before text,
    state_after text,
    accepted text,
    sealed_by text,
    erased_at integer,
    primary key (scope_id, key_form, key_id)
) strict, without rowid;

-- Evidence by position, for what did not make the first decision of its key: later copies, conflicts, records that were
-- set aside. The same position again writes nothing.
create table pawl_redelivery (
    scope_id integer not null,
    progress_id integer not null,
    position_offset integer not null,
    outcome integer not null,
    key_form integer,
    key_id blob check (length(key_id) = 16),
    fingerprint blob check (length(fingerprint) = 16),
    mode integer not null,
    code_id integer not null,
    ingested_at integer not null,
    processed_at integer not null,
    reason text,
    primary key (scope_id, progress_id, position_offset)
) strict, without rowid;

-- Records set aside whole.
-- status: 1 open, 2 replayed, 3 skipped, 4 archived.
-- value: the bytes as they came; null is a tombstone (or erased).
-- headers: JSON: [{"key": …, "value": base64}], "key64" where the key is not UTF-8.
create table pawl_quarantine (
    id integer primary key autoincrement,
    scope_id integer not null,
    progress_id integer not null,
    position_offset integer not null,
    leader_epoch integer not null,
    status integer not null default 1 check (status in (1, 2, 3, 4)),
    cause text not null,
    reason text not null,
    tries integer not null,
    mode integer not null,
    code_id integer not null,
    key_form integer,
    key_id blob check (length(key_id) = 16),
    key blob,
    stream text,
    record_key blob,
    value blob,
    headers text,
    ingested_at integer not null,
    quarantined_at integer not null,
    sealed_by text,
    erased_at integer,
    unique (scope_id, progress_id, position_offset)
) strict;
