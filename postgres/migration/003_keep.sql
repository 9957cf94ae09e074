insert into pawl_schema (version, name, applied_at) values (3, 'keep', now());

-- What an operator, and the stream behind it, need to know of a record that was set aside.
alter table pawl_quarantine
    add column fingerprint uuid,
    add column blocks boolean not null default false,
    add column replays integer not null default 0,
    add column tried_at timestamptz,
    add column settled_at timestamptz;
update pawl_quarantine q
set fingerprint = r.fingerprint
from pawl_redelivery r
where r.scope_id = q.scope_id
  and r.progress_id = q.progress_id
  and r.position_offset = q.position_offset;
create index pawl_quarantine_status on pawl_quarantine (scope_id, status, id);
create index pawl_quarantine_stream on pawl_quarantine (scope_id, stream);
comment on column pawl_quarantine.fingerprint is 'of the content as it came; null where it did not decode';
comment on column pawl_quarantine.blocks is 'its stream waits for it: later records of the stream are held';
comment on column pawl_quarantine.replays is 'how often an operator had it run again';
comment on column pawl_quarantine.tried_at is 'when it was last run again';

-- The streams that are not free: one of their records blocks them, or records are still held. Mostly there is none. The row
-- is what a release and a new arrival meet at: the one that comes second fails at the reference, and looks again.
create table pawl_stream (
    scope_id integer not null references pawl_scope (id),
    stream text not null,
    blocked_by bigint references pawl_quarantine (id),
    since timestamptz not null,
    primary key (scope_id, stream)
);
create index pawl_stream_blocked_by on pawl_stream (blocked_by);
comment on column pawl_stream.blocked_by is 'null: nothing blocks it any more, and its records are being released';

-- Records that wait behind their stream, whole.
create table pawl_hold (
    id bigint generated always as identity primary key,
    scope_id integer not null,
    stream text not null,
    progress_id integer not null,
    position_offset bigint not null,
    leader_epoch integer not null,
    mode smallint not null,
    code_id integer not null,
    key_form smallint,
    key_id uuid,
    key bytea,
    record_key bytea,
    value bytea,
    headers text,
    ingested_at timestamptz not null,
    held_at timestamptz not null,
    sealed_by text,
    unique (scope_id, progress_id, position_offset),
    constraint pawl_hold_stream_fkey foreign key (scope_id, stream) references pawl_stream (scope_id, stream)
);
create index pawl_hold_order on pawl_hold (scope_id, stream, progress_id, position_offset);

-- Other content that operators have given quarantined records. What came stays in pawl_quarantine.
create table pawl_revision (
    quarantine_id bigint not null references pawl_quarantine (id),
    number integer not null,
    value bytea,
    actor text not null,
    why text not null,
    at timestamptz not null,
    sealed_by text,
    erased_at timestamptz,
    primary key (quarantine_id, number)
);

-- What operators asked for. The items are frozen when it is asked for; lanes carry them out one by one.
create table pawl_operation (
    id bigint generated always as identity primary key,
    consumer_id integer not null references pawl_consumer (id),
    kind text not null,
    state text not null,
    total integer not null,
    done integer not null default 0,
    failed integer not null default 0,
    rate double precision not null,
    canary integer not null,
    filter text not null,
    actor text not null,
    why text not null,
    asked_at timestamptz not null,
    resumed_at timestamptz not null,
    resumed_done integer not null default 0,
    ended_at timestamptz
);
create index pawl_operation_state on pawl_operation (consumer_id, state);
comment on column pawl_operation.filter is 'JSON: what was asked for';
comment on column pawl_operation.failed is 'of those done, set aside again';
comment on column pawl_operation.resumed_at is 'the rate counts from here, and from resumed_done';

create table pawl_operation_item (
    id bigint generated always as identity primary key,
    operation_id bigint not null references pawl_operation (id),
    quarantine_id bigint not null references pawl_quarantine (id),
    progress_id integer not null,
    position_offset bigint not null,
    outcome smallint,
    reason text,
    done_at timestamptz,
    unique (operation_id, quarantine_id)
);
create index pawl_operation_item_pending on pawl_operation_item (operation_id, done_at, progress_id, position_offset);
create index pawl_operation_item_quarantine on pawl_operation_item (quarantine_id);

-- Who did what, and why. Rows are added, never changed or taken away. chain is for a hash over the row before.
create table pawl_audit (
    id bigint generated always as identity primary key,
    consumer_id integer not null references pawl_consumer (id),
    operation_id bigint,
    item_id bigint,
    what text not null,
    actor text not null,
    why text not null,
    at timestamptz not null,
    detail jsonb,
    chain bytea
);
create index pawl_audit_operation on pawl_audit (operation_id);

create function pawl_audit_stays()
returns trigger
language plpgsql
as $$
begin
    raise exception 'pawl: the audit is only ever added to';
end
$$;
create trigger pawl_audit_is_kept
before update or delete on pawl_audit
for each row execute function pawl_audit_stays();

-- Tries of an owner that goes carefully, noted before each. Those that the position has passed mean nothing any more.
create table pawl_attempt (
    progress_id integer not null,
    position_offset bigint not null,
    attempts integer not null,
    first_at timestamptz not null,
    last_at timestamptz not null,
    primary key (progress_id, position_offset)
);

-- Consumers that an operator has paused.
create table pawl_pause (
    consumer_id integer primary key references pawl_consumer (id),
    actor text not null,
    why text not null,
    since timestamptz not null
);

-- The functions below are part of THE transaction, and raise PW004 rather than return a count: see pawl_advance. Each
-- statement in them sees what was committed before it began. So they lock the stream first, which waits for whoever is
-- adding to it, and look at what is in it only then.

-- Is it a held record's turn? Asked before anything in the transaction blocks its stream.
create function pawl_turn(p_hold bigint)
returns void
language plpgsql
as $$
declare
    v_blocker bigint;
begin
    select s.blocked_by into v_blocker
    from pawl_hold h
    join pawl_stream s on s.scope_id = h.scope_id and s.stream = h.stream
    where h.id = p_hold
    for update of s;
    if not found then
        raise exception 'pawl: % is not held', p_hold using errcode = 'PW004';
    end if;
    if v_blocker is not null then
        raise exception 'pawl: the stream of hold % is blocked by %', p_hold, v_blocker using errcode = 'PW004';
    end if;
end
$$;

-- A stream that has neither blocker nor holds is free. Whoever calls it has locked the stream.
create function pawl_free(p_scope integer, p_stream text)
returns void
language sql
as $$
    delete from pawl_stream s
    where s.scope_id = p_scope
      and s.stream = p_stream
      and s.blocked_by is null
      and not exists (select from pawl_hold h where h.scope_id = p_scope and h.stream = p_stream)
$$;

-- A held record leaves its stream: behind pawl_turn, and behind whatever in the transaction is added to the stream.
create function pawl_release(p_hold bigint)
returns void
language plpgsql
as $$
declare
    v_scope integer;
    v_stream text;
begin
    delete from pawl_hold where id = p_hold returning scope_id, stream into v_scope, v_stream;
    if not found then
        raise exception 'pawl: % is not held', p_hold using errcode = 'PW004';
    end if;
    perform pawl_free(v_scope, v_stream);
end
$$;

-- A quarantined record is closed. Its stream passes to the next record that blocks it, if there is one. The stream is
-- locked whoever blocks it: else it could be passed to this very record by another transaction, at this very moment.
create function pawl_resolve(p_quarantine bigint, p_status smallint, p_now timestamptz)
returns void
language plpgsql
as $$
declare
    v_scope integer;
    v_stream text;
begin
    select scope_id, stream into v_scope, v_stream from pawl_quarantine where id = p_quarantine;
    perform from pawl_stream where scope_id = v_scope and stream = v_stream for update;

    update pawl_quarantine
    set status = p_status,
        settled_at = p_now,
        replays = replays + (p_status = 2)::integer,
        tried_at = case when p_status = 2 then p_now else tried_at end
    where id = p_quarantine
      and status = 1;
    if not found then
        raise exception 'pawl: % is not open in quarantine', p_quarantine using errcode = 'PW004';
    end if;

    update pawl_stream
    set blocked_by = (
        select min(id) from pawl_quarantine where scope_id = v_scope and stream = v_stream and status = 1 and blocks)
    where scope_id = v_scope
      and stream = v_stream
      and blocked_by = p_quarantine;
    if found then
        perform pawl_free(v_scope, v_stream);
    end if;
end
$$;

-- A quarantined record was run again, to no avail.
create function pawl_set_aside_again(p_quarantine bigint, p_cause text, p_reason text, p_tries integer, p_now timestamptz)
returns void
language plpgsql
as $$
begin
    update pawl_quarantine
    set cause = p_cause,
        reason = p_reason,
        tries = p_tries,
        replays = replays + 1,
        tried_at = p_now
    where id = p_quarantine
      and status = 1;
    if not found then
        raise exception 'pawl: % is not open in quarantine', p_quarantine using errcode = 'PW004';
    end if;
end
$$;

-- An item of an operation is carried out. An operation that was stopped meanwhile has nothing more carried out.
create function pawl_carry_out(p_item bigint, p_outcome smallint, p_outcome_name text, p_reason text, p_now timestamptz)
returns void
language plpgsql
as $$
declare
    v_operation bigint;
    v_quarantine bigint;
begin
    update pawl_operation_item
    set outcome = p_outcome,
        reason = p_reason,
        done_at = p_now
    where id = p_item
      and done_at is null
    returning operation_id, quarantine_id into v_operation, v_quarantine;
    if not found then
        raise exception 'pawl: item % is done', p_item using errcode = 'PW004';
    end if;

    update pawl_operation
    set done = done + 1,
        failed = failed + (p_outcome = 7)::integer,
        state = case when done + 1 = total then 'done' when done + 1 = canary then 'canary' else state end,
        ended_at = case when done + 1 = total then p_now end
    where id = v_operation
      and state = 'running';
    if not found then
        raise exception 'pawl: operation % is not running', v_operation using errcode = 'PW004';
    end if;

    insert into pawl_audit (consumer_id, operation_id, item_id, what, actor, why, at, detail)
    select consumer_id, id, p_item, kind, actor, why, p_now,
           jsonb_build_object('quarantine', v_quarantine, 'outcome', p_outcome_name)
    from pawl_operation
    where id = v_operation;
end
$$;

-- An owner that goes carefully is about to try a record. Returns how often that was done before.
create function pawl_note_attempt(
    p_id integer, p_epoch bigint, p_token text, p_seq bigint, p_offset bigint, p_now timestamptz)
returns integer
language plpgsql
as $$
declare
    v_epoch bigint;
    v_seq bigint;
    v_owner text;
    v_next bigint;
    v_attempts integer;
begin
    select epoch, seq, owner, next_offset into v_epoch, v_seq, v_owner, v_next
    from pawl_progress
    where id = p_id
    for update;
    if v_epoch > p_epoch then
        raise exception 'pawl: epoch is %, owner holds %', v_epoch, p_epoch using errcode = 'PW001';
    end if;
    if (v_epoch = p_epoch and v_owner = p_token and v_seq >= p_seq) is not true then
        raise exception 'pawl: epoch % and seq % are of another history, owner has seen % and %', v_epoch, v_seq, p_epoch, p_seq
            using errcode = 'PW002';
    end if;

    delete from pawl_attempt where progress_id = p_id and position_offset < v_next;
    insert into pawl_attempt as a (progress_id, position_offset, attempts, first_at, last_at)
    values (p_id, p_offset, 1, p_now, p_now)
    on conflict (progress_id, position_offset) do update
    set attempts = a.attempts + 1,
        last_at = p_now
    returning attempts into v_attempts;
    return v_attempts - 1;
end
$$;
