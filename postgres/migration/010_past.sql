insert into pawl_schema (version, name, applied_at) values (10, 'past', now());

-- What the evidence of a position said before it said something else: a record that was held, and then set aside, was held at the
-- moments between. It is asked for as of a moment, and not counted.
create table pawl_past (
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
    until timestamptz not null
);
comment on column pawl_past.until is 'when it was restated: exclusive';
create index pawl_past_key on pawl_past (key_id, until) where key_id is not null;
create index pawl_past_until on pawl_past (scope_id, until);

create function pawl_keep_past()
returns trigger
language plpgsql
as $$
begin
    insert into pawl_past (
        scope_id, progress_id, position_offset, outcome, key_form, key_id, fingerprint, mode, code_id, ingested_at, processed_at,
        reason, until
    )
    values (
        old.scope_id, old.progress_id, old.position_offset, old.outcome, old.key_form, old.key_id, old.fingerprint, old.mode,
        old.code_id, old.ingested_at, old.processed_at, old.reason, new.processed_at
    );
    return new;
end
$$;

create trigger pawl_redelivery_restated
before update on pawl_redelivery
for each row execute function pawl_keep_past();
