insert into pawl_schema (version, name, applied_at) values (9, 'deaths', now());

-- As in 007_received.sql, but owners that died are forgotten when the position moves, not at any commit: where streams are tried
-- side by side, each that dies of a record has settled records of other streams before, and the position stays.
create or replace function pawl_advance(
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
        crashes = case when p_next > next_offset then 0 else crashes end,
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
comment on column pawl_progress.crashes is 'owners in a row that neither moved the position nor gave back';
