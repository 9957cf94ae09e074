insert into pawl_schema (version, name, applied_at)
values (3, 'keep', cast(strftime('%s', 'now') as integer) * 1000000);

-- What an operator, and the stream behind it, need to know of a record that was set aside.
-- fingerprint: of the content as it came; null where it did not decode.
-- blocks: its stream waits for it: later records of the stream are held.
-- replays: how often an operator had it run again; tried_at: when last.
alter table pawl_quarantine add column fingerprint blob check (length(fingerprint) = 16);
alter table pawl_quarantine add column blocks integer not null default 0;
alter table pawl_quarantine add column replays integer not null default 0;
alter table pawl_quarantine add column tried_at integer;
alter table pawl_quarantine add column settled_at integer;
update pawl_quarantine
set fingerprint = (
    select r.fingerprint
    from pawl_redelivery r
    where r.scope_id = pawl_quarantine.scope_id
      and r.progress_id = pawl_quarantine.progress_id
      and r.position_offset = pawl_quarantine.position_offset
);
create index pawl_quarantine_status on pawl_quarantine (scope_id, status, id);
create index pawl_quarantine_stream on pawl_quarantine (scope_id, stream);

-- The streams that are not free: one of their records blocks them, or records are still held. Mostly there is none. The row
-- is what a release and a new arrival meet at: the one that comes second fails at the reference, and looks again.
-- blocked_by: null: nothing blocks it any more, and its records are being released.
create table pawl_stream (
    scope_id integer not null references pawl_scope (id),
    stream text not null,
    blocked_by integer references pawl_quarantine (id),
    since integer not null,
    primary key (scope_id, stream)
) strict, without rowid;
create index pawl_stream_blocked_by on pawl_stream (blocked_by);

-- Records that wait behind their stream, whole.
create table pawl_hold (
    id integer primary key autoincrement,
    scope_id integer not null,
    stream text not null,
    progress_id integer not null,
    position_offset integer not null,
    leader_epoch integer not null,
    mode integer not null,
    code_id integer not null,
    key_form integer,
    key_id blob check (length(key_id) = 16),
    key blob,
    record_key blob,
    value blob,
    headers text,
    ingested_at integer not null,
    held_at integer not null,
    sealed_by text,
    unique (scope_id, progress_id, position_offset),
    foreign key (scope_id, stream) references pawl_stream (scope_id, stream)
) strict;
create index pawl_hold_order on pawl_hold (scope_id, stream, progress_id, position_offset);

-- Other content that operators have given quarantined records. What came stays in pawl_quarantine.
create table pawl_revision (
    quarantine_id integer not null references pawl_quarantine (id),
    number integer not null,
    value blob,
    actor text not null,
    why text not null,
    at integer not null,
    sealed_by text,
    erased_at integer,
    primary key (quarantine_id, number)
) strict, without rowid;

-- What operators asked for. The items are frozen when it is asked for; lanes carry them out one by one.
-- filter: JSON: what was asked for.
-- failed: of those done, set aside again.
-- resumed_at: the rate counts from here, and from resumed_done.
create table pawl_operation (
    id integer primary key autoincrement,
    consumer_id integer not null references pawl_consumer (id),
    kind text not null,
    state text not null,
    total integer not null,
    done integer not null default 0,
    failed integer not null default 0,
    rate real not null,
    canary integer not null,
    filter text not null,
    actor text not null,
    why text not null,
    asked_at integer not null,
    resumed_at integer not null,
    resumed_done integer not null default 0,
    ended_at integer
) strict;
create index pawl_operation_state on pawl_operation (consumer_id, state);

create table pawl_operation_item (
    id integer primary key autoincrement,
    operation_id integer not null references pawl_operation (id),
    quarantine_id integer not null references pawl_quarantine (id),
    progress_id integer not null,
    position_offset integer not null,
    outcome integer,
    reason text,
    done_at integer,
    unique (operation_id, quarantine_id)
) strict;
create index pawl_operation_item_pending on pawl_operation_item (operation_id, done_at, progress_id, position_offset);
create index pawl_operation_item_quarantine on pawl_operation_item (quarantine_id);

-- Who did what, and why. Rows are added, never changed or taken away. chain is for a hash over the row before; detail is
-- JSON.
create table pawl_audit (
    id integer primary key autoincrement,
    consumer_id integer not null references pawl_consumer (id),
    operation_id integer,
    item_id integer,
    what text not null,
    actor text not null,
    why text not null,
    at integer not null,
    detail text,
    chain blob
) strict;
create index pawl_audit_operation on pawl_audit (operation_id);
create trigger pawl_audit_stays before update on pawl_audit
begin
    select raise(abort, 'pawl: the audit is only ever added to');
end;
create trigger pawl_audit_stays_whole before delete on pawl_audit
begin
    select raise(abort, 'pawl: the audit is only ever added to');
end;

-- Tries of an owner that goes carefully, noted before each. Those that the position has passed mean nothing any more.
create table pawl_attempt (
    progress_id integer not null,
    position_offset integer not null,
    attempts integer not null,
    first_at integer not null,
    last_at integer not null,
    primary key (progress_id, position_offset)
) strict, without rowid;

-- Consumers that an operator has paused.
create table pawl_pause (
    consumer_id integer primary key references pawl_consumer (id),
    actor text not null,
    why text not null,
    since integer not null
) strict;
