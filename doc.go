// Package pawl makes a Kafka consumer correct: every event takes effect once per business key, whatever is delivered
// twice, late, out of order, replayed, or cut off by a crash. And it keeps, in the same commit, why.
//
// A pawl is the small catch that lets a ratchet wheel turn forward and never back.
//
// # Writing a consumer
//
// A Runner joins a Store (a database) to a Source (a log). Routes say which topics are decoded how and handled by what:
//
//	r := pawl.NewRunner(postgres.New(pool), kafka.New(kafka.Config{Brokers: brokers, Group: "billing"}), pawl.Config{Consumer: "billing"})
//	pawl.Handle(r, pawl.Route{Name: "charge", Topics: []string{"payments"}},
//		decode.JSON(func(m pawl.Meta, p Payment) pawl.Identity {
//			return pawl.Identity{EventID: p.ID, Key: p.AttemptID, Stream: p.Account, Version: p.V}
//		}),
//		func(ctx context.Context, tx pgx.Tx, e pawl.Envelope[Payment]) error {
//			_, err := tx.Exec(ctx, `insert into charge (attempt, amount) values ($1, $2)`, e.Key, e.Body.Amount)
//			return err
//		})
//	err := r.Run(ctx)
//
// The handler writes through tx and returns nil, a verb ([Ignore], [Stale], [Reject], [Later]) or an error. Any non-nil
// return undoes what the handler wrote for that record. A handler may run several times for one record; only one run's
// writes are ever kept. It must keep nothing in memory, and touch nothing outside tx, that has to happen once.
//
// # What commits together
//
// The claim on the key, the handler's writes, the evidence of what was decided, quarantined records and the source
// position commit in one database transaction, whose last statement proves that the writer still owns the partition.
// Kafka's offset is committed after that: it may lag the effects and never leads them.
//
// # The path of a record
//
// kafka.Source polls and hands records to [Runner]; the runner puts them in the lane of their partition; a free worker
// takes a batch from the lane, decodes it, and settles it through [BoundStore.Apply]; progress follows the commit, and the
// offset follows progress. docs/design.md tells the same by file and function; docs/guarantee.md says what is promised,
// what proves it, and what is not promised.
package pawl
