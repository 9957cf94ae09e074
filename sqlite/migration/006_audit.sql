insert into pawl_schema (version, name, applied_at)
values (6, 'audit', cast(strftime('%s', 'now') as integer) * 1000000);

-- The audit is chained: docs/adr/0010-audit-chain.md. Each operation has a chain; acts without one are in the chain of their
-- consumer. Hashes are made in Go: AuditRow.Sum.
-- number: place in its chain, from 1; null: it is older than the chains.
-- salt: random, erased with the content: what was erased cannot be found out from the digest by trial.
-- digest: of the row as it was written; chain: sha256 of the chain of the row before, and the digest.
-- erased_at: when actor, why, detail and salt were emptied.
alter table pawl_audit add column number integer;
alter table pawl_audit add column salt blob;
alter table pawl_audit add column digest blob;
alter table pawl_audit add column erased_at integer;

-- The end of each chain is kept apart from its rows, so that the last of them cannot be taken away unseen.
-- audit_before: acts up to this id are older than the chains.
alter table pawl_operation add column audit_length integer not null default 0;
alter table pawl_operation add column audit_head blob;
alter table pawl_consumer add column audit_length integer not null default 0;
alter table pawl_consumer add column audit_head blob;
alter table pawl_consumer add column audit_before integer not null default 0;
update pawl_consumer
set audit_before = coalesce((select max(a.id) from pawl_audit a where a.consumer_id = pawl_consumer.id), 0);

-- Seals over the heads of a consumer's chains that have grown since the seal before, and over that one.
-- acts: covered by this seal and those before it.
create table pawl_seal (
    id integer primary key autoincrement,
    consumer_id integer not null references pawl_consumer (id),
    number integer not null,
    sealed_at integer not null,
    acts integer not null,
    hash blob not null,
    chain blob not null,
    unique (consumer_id, number)
) strict;

-- operation_id: 0: the chain of the consumer itself.
create table pawl_seal_head (
    consumer_id integer not null,
    operation_id integer not null,
    length integer not null,
    head blob not null,
    seal_id integer not null references pawl_seal (id),
    primary key (consumer_id, operation_id, length)
) strict, without rowid;
create index pawl_seal_head_seal on pawl_seal_head (seal_id);

create trigger pawl_seal_stays before update on pawl_seal
begin
    select raise(abort, 'pawl: the audit is only ever added to');
end;
create trigger pawl_seal_stays_whole before delete on pawl_seal
begin
    select raise(abort, 'pawl: the audit is only ever added to');
end;
create trigger pawl_seal_head_stays before update on pawl_seal_head
begin
    select raise(abort, 'pawl: the audit is only ever added to');
end;
create trigger pawl_seal_head_stays_whole before delete on pawl_seal_head
begin
    select raise(abort, 'pawl: the audit is only ever added to');
end;
