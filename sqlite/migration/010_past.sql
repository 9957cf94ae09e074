insert into pawl_schema (version, name, applied_at)
values (10, 'past', cast(strftime('%s', 'now') as integer) * 1000000);

-- What the evidence of a position said before it said something else: a record that was held, and then set aside, was held at the
-- moments between. It is asked for as of a moment, and not counted.
-- until: when it was restated: exclusive.
create table pawl_past (
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
    until integer not null
) strict;
create index pawl_past_key on pawl_past (key_id, until) where key_id is not null;
create index pawl_past_until on pawl_past (scope_id, until);

create trigger pawl_redelivery_restated
before update on pawl_redelivery
begin
    insert into pawl_past (
        scope_id, progress_id, position_offset, outcome, key_form, key_id, fingerprint, mode, code_id, ingested_at, processed_at,
        reason, until
    )
    values (
        old.scope_id, old.progress_id, old.position_offset, old.outcome, old.key_form, old.key_id, old.fingerprint, old.mode,
        old.code_id, old.ingested_at, old.processed_at, old.reason, new.processed_at
    );
end;
