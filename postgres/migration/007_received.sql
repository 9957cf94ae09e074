insert into pawl_schema (version, name, applied_at) values (7, 'received', now());

-- How far the owner of a partition had read when it last settled something: what is between it and next_offset was in hand. It
-- is written with the position, and costs no statement of its own. What an owner had in hand and lost is not received.
alter table pawl_progress add column received_offset bigint not null default 0;
comment on column pawl_progress.received_offset is 'the offset after the last one that the owner had received, as of its last commit; not below next_offset';
update pawl_progress set received_offset = next_offset;

-- As in 001_core.sql, with what was received.
create function pawl_advance(
    p_id integer, p_epoch bigint, p_token text, p_seq bigint, p_next bigint, p_received bigint, p_now timestamptz, p_guard text)
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
        received_offset = greatest(next_offset, p_next, p_received),
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

-- For members that were started before this migration.
create or replace function pawl_advance(
    p_id integer, p_epoch bigint, p_token text, p_seq bigint, p_next bigint, p_now timestamptz, p_guard text)
returns bigint
language sql
as $$
    select pawl_advance(p_id, p_epoch, p_token, p_seq, p_next, p_next, p_now, p_guard)
$$;
