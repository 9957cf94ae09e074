package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The classic idempotent consumer: one transaction per record, in it a marker and, if the marker is new, the effect;
// Kafka's offset behind it. It is written as one would write it for production, and tuned no further.

const createMarker = `
create table processed_kafka_event (
    consumer_name text not null,
    event_id text not null,
    topic text not null,
    partition int not null,
    "offset" bigint not null,
    processed_at timestamptz not null default now(),
    primary key (consumer_name, event_id)
)`

const insertMarker = `
insert into processed_kafka_event (consumer_name, event_id, topic, partition, "offset")
values ($1, $2, $3, $4, $5)
on conflict do nothing`

const upsertCase = `
insert into case_projection as p (case_id, state, version, applied, updated_at)
values ($1, $2, $3, 1, now())
on conflict (case_id) do update
set state = excluded.state,
    version = excluded.version,
    applied = p.applied + 1,
    updated_at = excluded.updated_at
where p.version < excluded.version`

type classic struct {
	pool  *pgxpool.Pool
	cl    *kgo.Client
	w     *stopwatch
	apply func(context.Context, pgx.Tx, *body) error // the effect
}

func openClassic(ctx context.Context, t *task, w *stopwatch, conns int) (*classic, error) {
	pool, err := openPool(ctx, t.Postgres, conns)
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(t.Brokers...), kgo.ConsumerGroup(t.Group), kgo.ConsumeTopics(t.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.WithHooks(w),
	)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &classic{pool, cl, w, classicUpsert}, nil
}

func (c *classic) close() {
	c.cl.Close()
	c.pool.Close()
}

// runClassic1 is one worker: it polls, handles record after record, and commits the offsets of the poll.
func runClassic1(ctx context.Context, t *task, w *stopwatch) error {
	c, err := openClassic(ctx, t, w, 2)
	if err != nil {
		return err
	}
	defer c.close()
	return c.serve(ctx)
}

func (c *classic) serve(ctx context.Context) error {
	for !c.w.finished() {
		fetches := c.cl.PollRecords(ctx, 500)
		if err := fetches.Err(); err != nil {
			return err
		}
		for r := range fetches.RecordsAll() {
			if err := c.handle(ctx, r); err != nil {
				return err
			}
			c.w.settle(1)
		}
		if err := c.cl.CommitUncommittedOffsets(ctx); err != nil {
			return err
		}
	}
	return nil
}

// runClassicN is one worker a partition: each handles the records of its partition one after the other and commits what
// it was given. Workers are made when their partition is first heard of; there is no rebalance here that would end one.
func runClassicN(ctx context.Context, t *task, w *stopwatch) error {
	c, err := openClassic(ctx, t, w, partitions)
	if err != nil {
		return err
	}
	defer c.close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // ends the poll that waits for more than there is
		select {
		case <-w.done:
			cancel(nil)
		case <-ctx.Done():
		}
	}()
	var workers sync.WaitGroup
	queues := map[int32]chan []*kgo.Record{}
	for ctx.Err() == nil {
		fetches := c.cl.PollRecords(ctx, 10_000)
		if err := fetches.Err(); err != nil && ctx.Err() == nil {
			cancel(err)
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if len(p.Records) == 0 {
				return
			}
			if queues[p.Partition] == nil {
				q := make(chan []*kgo.Record, 5)
				queues[p.Partition] = q
				workers.Go(func() {
					// Work outlives the poll loop: what was taken is finished and committed.
					if err := c.work(context.WithoutCancel(ctx), q); err != nil {
						cancel(err)
						for range q { // so that nobody waits for us
						}
					}
				})
			}
			queues[p.Partition] <- p.Records
		})
	}
	for _, q := range queues {
		close(q)
	}
	workers.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

func (c *classic) work(ctx context.Context, queue <-chan []*kgo.Record) error {
	for records := range queue {
		for _, r := range records {
			if err := c.handle(ctx, r); err != nil {
				return err
			}
			c.w.settle(1)
		}
		if err := c.cl.CommitRecords(ctx, records...); err != nil {
			return err
		}
	}
	return nil
}

// handle is the transaction.
func (c *classic) handle(ctx context.Context, r *kgo.Record) error {
	var b body
	if err := json.Unmarshal(r.Value, &b); err != nil {
		return fmt.Errorf("decode %s/%d at %d: %w", r.Topic, r.Partition, r.Offset, err)
	}
	return pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, insertMarker, consumer, b.EventID, r.Topic, r.Partition, r.Offset)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		return c.apply(ctx, tx, &b)
	})
}

func classicUpsert(ctx context.Context, tx pgx.Tx, b *body) error {
	_, err := tx.Exec(ctx, upsertCase, b.CaseID, b.State, b.Version)
	return err
}

func checkClassic(w want) []count {
	return []count{{"markers", `select count(*) from processed_kafka_event`, w.unique}}
}
