-- What has been applied. Every migration records itself, so that any tool can apply it.
create table if not exists pawl_schema (
    version integer primary key,
    name text not null,
    applied_at timestamptz not null
);
insert into pawl_schema (version, name, applied_at) values (1, 'core', now());

-- Names are interned: a decision row carries integers, not repeated text.

create table pawl_name (
    id integer generated always as identity primary key,
    name text not null unique
);
comment on table pawl_name is 'event types, stream types and code versions, once each';

-- A consumer name belongs to one group of one cluster: positions and claims of another would not mean the same.
create table pawl_consumer (
    id integer generated always as identity primary key,
    name text not null unique,
    cluster text not null,
    group_name text not null,
    created_at timestamptz not null
);

-- The scope of "once": consumer and route.
create table pawl_scope (
    id integer generated always as identity primary key,
    consumer_id integer not null references pawl_consumer (id),
    route text not null,
    horizon_at timestamptz,
    created_at timestamptz not null,
    unique (consumer_id, route)
);
comment on column pawl_scope.horizon_at is 'markers of events before this have been retired: without one, such an event is refused';

-- One row per partition that a consumer has ever owned. It is the fence, the position, and the answer to "did that
-- commit?". fillfactor: the row is updated by every transaction, in place.
create table pawl_progress (
    id integer generated always as identity primary key,
    consumer_id integer not null references pawl_consumer (id),
    topic_id uuid not null,
    partition integer not null,
    topic text not null,
    next_offset bigint not null check (next_offset >= 0),
    epoch bigint not null default 0,
    seq bigint not null default 0,
    owner text,
    crashes integer not null default 0,
    horizon_offset bigint not null default 0,
    created_at timestamptz not null,
    acquired_at timestamptz,
    advanced_at timestamptz,
    unique (consumer_id, topic_id, partition)
) with (fillfactor = 50);
comment on column pawl_progress.next_offset is 'every offset below it is settled';
comment on column pawl_progress.epoch is 'raised at every assignment; a transaction of an older epoch does not commit';
comment on column pawl_progress.seq is 'raised by every commit; behind what its owner has seen means that commits were lost';
comment on column pawl_progress.owner is 'the token of the acquire that holds it: epochs may repeat in a database that was restored; null when given back in good order';
comment on column pawl_progress.crashes is 'owners in a row that neither advanced nor gave back';

-- The first terminal decision for a key within a scope: the claim and its evidence. Written once, never updated by the
-- path of a record.
create table pawl_decision (
    key_id uuid not null,
    fingerprint uuid not null,
    position_offset bigint not null,
    version bigint,
    version_before bigint,
    occurred_at timestamptz,
    ingested_at timestamptz not null,
    processed_at timestamptz not null,
    scope_id integer not null,
    progress_id integer not null,
    type_id integer,
    stream_type_id integer,
    code_id integer not null,
    schema_version integer,
    key_form smallint not null,
    outcome smallint not null check (outcome in (1, 2, 3, 4, 5, 8)),
    mode smallint not null,
    key bytea check ((key is null) = (key_form <> 0)),
    stream text,
    reason text,
    event_id text,
    message_id text,
    correlation_id text,
    causation_id text,
    row_affected text,
    state_before jsonb,
    state_after jsonb,
    accepted uuid[],
    sealed_by text,
    erased_at timestamptz,
    primary key (scope_id, key_form, key_id)
);
comment on column pawl_decision.key_form is '0: key_id is a hash of key; 1: key_id is the key, a UUID; 2: a ULID';
comment on column pawl_decision.version is 'the version the event brought; after it is applied, the version of its stream';
comment on column pawl_decision.accepted is 'fingerprints accepted beside the first, such as that of an edited record';
comment on column pawl_decision.outcome is '1 applied, 2 duplicate of another event, 3 stale, 4 ignored, 5 superseded, 8 skipped by an operator';

-- Evidence by position, for what did not make the first decision of its key: later copies, conflicts, records that were
-- set aside. The same position again writes nothing.
create table pawl_redelivery (
    scope_id integer not null,
    progress_id integer not null,
    position_offset bigint not null,
    outcome smallint not null,
    key_form smallint,
    key_id uuid,
    fingerprint uuid,
    mode smallint not null,
    code_id integer not null,
    ingested_at timestamptz not null,
    processed_at timestamptz not null,
    reason text,
    primary key (scope_id, progress_id, position_offset)
);

-- Records set aside whole.
create table pawl_quarantine (
    id bigint generated always as identity primary key,
    scope_id integer not null,
    progress_id integer not null,
    position_offset bigint not null,
    leader_epoch integer not null,
    status smallint not null default 1 check (status in (1, 2, 3, 4)),
    cause text not null,
    reason text not null,
    tries integer not null,
    mode smallint not null,
    code_id integer not null,
    key_form smallint,
    key_id uuid,
    key bytea,
    stream text,
    record_key bytea,
    value bytea,
    headers text,
    ingested_at timestamptz not null,
    quarantined_at timestamptz not null,
    sealed_by text,
    erased_at timestamptz,
    unique (scope_id, progress_id, position_offset)
);
comment on column pawl_quarantine.status is '1 open, 2 replayed, 3 skipped, 4 archived';
comment on column pawl_quarantine.value is 'the bytes as they came; null is a tombstone (or erased)';
comment on column pawl_quarantine.headers is 'JSON: [{"key": …, "value": base64}], "key64" where the key is not UTF-8';

-- The last statement of every transaction: position and fence in one. It raises rather than return a count, because
-- COMMIT is already on its way behind it: what the client would look at afterwards would be too late.
create function pawl_advance(
    p_id integer, p_epoch bigint, p_token text, p_seq bigint, p_next bigint, p_now timestamptz, p_guard text)
returns bigint
language plpgsql
as $$
declare
    v_epoch bigint;
    v_seq bigint;
    v_owner text;
begin
    -- Set at the start of the transaction, gone with it: its absence means that a handler ended the transaction.
    if current_setting('pawl.guard', true) is distinct from p_guard then
        raise exception 'pawl: the transaction was ended by a handler' using errcode = 'PW003';
    end if;

    update pawl_progress
    set next_offset = greatest(next_offset, p_next),
        seq = seq + 1,
        crashes = 0,
        advanced_at = p_now
    where id = p_id
      and epoch = p_epoch
      and owner = p_token
      and seq >= p_seq
    returning seq into v_seq;
    if found then
        return v_seq;
    end if;

    select epoch, seq, owner into v_epoch, v_seq, v_owner from pawl_progress where id = p_id;
    if v_epoch = p_epoch and v_owner = p_token then
        raise exception 'pawl: seq is %, owner has seen %', v_seq, p_seq using errcode = 'PW002';
    end if;
    if v_epoch is null or v_epoch <= p_epoch then
        raise exception 'pawl: epoch is % of another history, owner holds %', v_epoch, p_epoch using errcode = 'PW002';
    end if;
    raise exception 'pawl: epoch is %, owner holds %', v_epoch, p_epoch using errcode = 'PW001';
end
$$;
