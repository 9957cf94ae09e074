-- of pipeline case-lifecycle
-- Rows are updated. Room on each page keeps that out of the indexes; a table that is only added to needs none.
create table "case_projection" (
    "case_id" text not null,
    "version" bigint not null,
    "status" text,
    "assigned_to" text,
    "last_event_id" text,
    "last_event_at" timestamptz,
    primary key ("case_id")
) with (fillfactor = 70);

-- of pipeline case-lifecycle
-- Rows are updated. Room on each page keeps that out of the indexes; a table that is only added to needs none.
create table "case_audit" (
    "event_key" text not null,
    "event_id" text,
    "stream" text,
    "version" bigint,
    "event_type" text,
    "occurred_at" timestamptz,
    "body" jsonb,
    primary key ("event_key")
) with (fillfactor = 70);

