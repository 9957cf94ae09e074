insert into pawl_schema (version, name, applied_at) values (6, 'audit', now());

-- The audit is chained: docs/adr/0010-audit-chain.md. Each operation has a chain; acts without one are in the chain of their
-- consumer. json, and not jsonb: what is hashed must be kept as it was written.
alter table pawl_audit
    alter column detail type json using detail::text::json,
    add column number bigint,
    add column salt bytea,
    add column digest bytea,
    add column erased_at timestamptz;
comment on column pawl_audit.number is 'place in its chain, from 1; null: it is older than the chains';
comment on column pawl_audit.salt is 'random, erased with the content: what was erased cannot be found out from the digest by trial';
comment on column pawl_audit.digest is 'of the row as it was written';
comment on column pawl_audit.chain is 'sha256 of the chain of the row before, and the digest';
comment on column pawl_audit.erased_at is 'when actor, why, detail and salt were emptied';

-- The end of each chain is kept apart from its rows, so that the last of them cannot be taken away unseen.
alter table pawl_operation
    add column audit_length bigint not null default 0,
    add column audit_head bytea;
alter table pawl_consumer
    add column audit_length bigint not null default 0,
    add column audit_head bytea,
    add column audit_before bigint not null default 0;
comment on column pawl_consumer.audit_before is 'acts up to this id are older than the chains';
update pawl_consumer c
set audit_before = coalesce((select max(a.id) from pawl_audit a where a.consumer_id = c.id), 0);

-- Seals over the heads of a consumer's chains that have grown since the seal before, and over that one.
create table pawl_seal (
    id bigint generated always as identity primary key,
    consumer_id integer not null references pawl_consumer (id),
    number bigint not null,
    sealed_at timestamptz not null,
    acts bigint not null,
    hash bytea not null,
    chain bytea not null,
    unique (consumer_id, number)
);
comment on column pawl_seal.acts is 'covered by this seal and those before it';

create table pawl_seal_head (
    consumer_id integer not null,
    operation_id bigint not null,
    length bigint not null,
    head bytea not null,
    seal_id bigint not null references pawl_seal (id),
    primary key (consumer_id, operation_id, length)
);
create index pawl_seal_head_seal on pawl_seal_head (seal_id);
comment on column pawl_seal_head.operation_id is '0: the chain of the consumer itself';

create trigger pawl_seal_is_kept
before update or delete on pawl_seal
for each row execute function pawl_audit_stays();
create trigger pawl_seal_head_is_kept
before update or delete on pawl_seal_head
for each row execute function pawl_audit_stays();

-- A value behind its length, so that no two rows are encoded alike.
create function pawl_audit_field(p_value bytea)
returns bytea
language sql
immutable
as $$
    select coalesce(int4send(length(p_value)) || p_value, '\xffffffff'::bytea)
$$;

-- The same as AuditRow.Sum in Go. It never changes: another version begins with another byte, and has another name.
create function pawl_audit_digest(a pawl_audit)
returns bytea
language sql
stable
as $$
    select sha256('\x01'::bytea
        || pawl_audit_field(int8send(a.number))
        || pawl_audit_field(int8send(a.consumer_id::bigint))
        || pawl_audit_field(int8send(a.operation_id))
        || pawl_audit_field(int8send(a.item_id))
        || pawl_audit_field(convert_to(a.what, 'UTF8'))
        || pawl_audit_field(convert_to(a.actor, 'UTF8'))
        || pawl_audit_field(convert_to(a.why, 'UTF8'))
        || pawl_audit_field(int8send((extract(epoch from a.at) * 1000000)::bigint))
        || pawl_audit_field(convert_to(a.detail::text, 'UTF8'))
        || pawl_audit_field(a.salt))
$$;

-- Adds acts to the end of the chain of an operation, or of the consumer. Locks what keeps the head: that is the order of the
-- chain. Many at once, because a row that is updated again and again in one transaction is ever slower to find.
create function pawl_note_acts(
    p_consumer integer, p_operation bigint, p_what text, p_actor text, p_why text, p_at timestamptz, p_items bigint[],
    p_details json[])
returns void
language plpgsql
as $$
declare
    a pawl_audit;
    v_head bytea;
begin
    if p_operation is null then
        select audit_length, audit_head into a.number, v_head from pawl_consumer where id = p_consumer for no key update;
    else
        select audit_length, audit_head into a.number, v_head from pawl_operation where id = p_operation for no key update;
    end if;
    if not found then
        raise exception 'pawl: consumer % and operation % have no chain', p_consumer, p_operation;
    end if;
    a.consumer_id := p_consumer;
    a.operation_id := p_operation;
    a.what := p_what;
    a.actor := p_actor;
    a.why := p_why;
    a.at := p_at;
    for i in 1 .. cardinality(p_items) loop
        a.number := a.number + 1;
        a.item_id := p_items[i];
        a.detail := p_details[i];
        a.salt := uuid_send(gen_random_uuid());
        a.digest := pawl_audit_digest(a);
        v_head := sha256(coalesce(v_head, ''::bytea) || a.digest);
        insert into pawl_audit (consumer_id, operation_id, item_id, what, actor, why, at, detail, number, salt, digest, chain)
        values (a.consumer_id, a.operation_id, a.item_id, a.what, a.actor, a.why, a.at, a.detail, a.number, a.salt, a.digest,
                v_head);
    end loop;
    if p_operation is null then
        update pawl_consumer set audit_length = a.number, audit_head = v_head where id = p_consumer;
    else
        update pawl_operation set audit_length = a.number, audit_head = v_head where id = p_operation;
    end if;
end
$$;

-- As in 003_keep.sql, but that the act is chained.
create or replace function pawl_carry_out(
    p_item bigint, p_outcome smallint, p_outcome_name text, p_reason text, p_now timestamptz)
returns void
language plpgsql
as $$
declare
    v_quarantine bigint;
    o pawl_operation;
begin
    update pawl_operation_item
    set outcome = p_outcome,
        reason = p_reason,
        done_at = p_now
    where id = p_item
      and done_at is null
    returning operation_id, quarantine_id into o.id, v_quarantine;
    if not found then
        raise exception 'pawl: item % is done', p_item using errcode = 'PW004';
    end if;

    update pawl_operation
    set done = done + 1,
        failed = failed + (p_outcome = 7)::integer,
        state = case when done + 1 = total then 'done' when done + 1 = canary then 'canary' else state end,
        ended_at = case when done + 1 = total then p_now end
    where id = o.id
      and state = 'running'
    returning consumer_id, kind, actor, why into o.consumer_id, o.kind, o.actor, o.why;
    if not found then
        raise exception 'pawl: operation % is not running', o.id using errcode = 'PW004';
    end if;

    perform pawl_note_acts(o.consumer_id, o.id, o.kind, o.actor, o.why, p_now, array[p_item],
        array[json_build_object('quarantine', v_quarantine, 'outcome', p_outcome_name)]);
end
$$;
