insert into pawl_schema (version, name, applied_at) values (4, 'gap', now());

-- Streams whose next event is missing, while later ones of it have come. Mostly there is none. Whoever adds to what waits in a
-- stream, or takes from it, locks its row first, and looks only then.
create table pawl_gap (
    scope_id integer not null references pawl_scope (id),
    stream text not null,
    expected bigint not null,
    since timestamptz not null,
    due_at timestamptz not null,
    primary key (scope_id, stream)
);
create index pawl_gap_due on pawl_gap (scope_id, due_at);
comment on column pawl_gap.expected is 'the version that is missing';
comment on column pawl_gap.due_at is 'when to look again, whatever comes: it may have been closed at the moment it was opened, or have lasted too long';

-- Records that came early, whole.
create table pawl_early (
    id bigint generated always as identity primary key,
    scope_id integer not null,
    stream text not null,
    version bigint not null,
    progress_id integer not null,
    position_offset bigint not null,
    leader_epoch integer not null,
    mode smallint not null,
    code_id integer not null,
    key_form smallint not null,
    key_id uuid not null,
    key bytea,
    record_key bytea,
    value bytea,
    headers text,
    ingested_at timestamptz not null,
    held_at timestamptz not null,
    until_at timestamptz not null,
    sealed_by text,
    unique (scope_id, progress_id, position_offset)
);
create index pawl_early_order on pawl_early (scope_id, stream, version, id);
comment on column pawl_early.until_at is 'how long it waits for what is missing';

-- What corrects what. The key that is corrected may not have come yet: then its row has no fingerprint but zero.
alter table pawl_decision add column superseded_by bytea;
comment on column pawl_decision.superseded_by is 'the key of the event that corrects this one';

-- Early records leave: their turn has come, or their time is over. Their gaps are locked. Raises rather than return a count: see pawl_advance.
create function pawl_release_early(p_ids bigint[])
returns void
language plpgsql
as $$
declare
    v_n integer;
begin
    delete from pawl_early where id = any (p_ids);
    get diagnostics v_n = row_count;
    if v_n <> cardinality(p_ids) then
        raise exception 'pawl: of % early records, % are held', cardinality(p_ids), v_n using errcode = 'PW004';
    end if;
end
$$;

-- A stream that has neither blocker nor holds is free. Whoever calls it has locked the stream. What came early in it, and was
-- passed over meanwhile, is looked at again at once.
create or replace function pawl_free(p_scope integer, p_stream text)
returns void
language plpgsql
as $$
begin
    delete from pawl_stream s
    where s.scope_id = p_scope
      and s.stream = p_stream
      and s.blocked_by is null
      and not exists (select from pawl_hold h where h.scope_id = p_scope and h.stream = p_stream);
    if found then
        update pawl_gap set due_at = since where scope_id = p_scope and stream = p_stream;
    end if;
end
$$;

-- What is to be set aside must not have been decided meanwhile: a copy that ran beside the first of its key may have failed
-- because of it. Raises PW005: tried again, it is a duplicate.
create function pawl_undecided(p_scopes integer[], p_forms smallint[], p_ids uuid[])
returns void
language plpgsql
as $$
begin
    perform
    from unnest(p_scopes, p_forms, p_ids) as k (scope_id, key_form, key_id)
    join pawl_decision d on d.scope_id = k.scope_id and d.key_form = k.key_form and d.key_id = k.key_id;
    if found then
        raise exception 'pawl: a record to be set aside was decided meanwhile' using errcode = 'PW005';
    end if;
end
$$;
