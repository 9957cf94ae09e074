create table orders (
    id          text   not null primary key,
    status      text   not null,
    total_cents bigint not null check (total_cents >= 0),
    version     bigint not null, -- of the newest event that was applied
    changes     bigint not null  -- how many events were: counts twice if an event is applied twice
);
