package pawl_test

import (
	"context"
	"database/sql"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
	"github.com/pawlhq/pawl/kafka"
	"github.com/pawlhq/pawl/postgres"
)

// Payment is an event of these examples.
type Payment struct {
	ID        string `json:"id"`
	AttemptID string `json:"attemptId"`
	Account   string `json:"account"`
	Version   int64  `json:"version"`
	Amount    int64  `json:"amount"`
}

func paymentIdentity(_ pawl.Meta, p Payment) pawl.Identity {
	return pawl.Identity{EventID: p.ID, Key: p.AttemptID, Stream: p.Account, Version: p.Version}
}

// On PostgreSQL with pgx: the handler gets a pgx.Tx that it cannot end.
func ExampleHandle_pgx() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/billing")
	if err != nil {
		log.Fatal(err)
	}
	store := postgres.New(pool)
	if err := store.Migrate(ctx); err != nil { // or apply postgres.Migrations() with your own tool
		log.Fatal(err)
	}
	source := kafka.New(kafka.Config{Brokers: []string{"localhost:9092"}, Group: "billing"})

	r := pawl.NewRunner(store, source, pawl.Config{Consumer: "billing"})
	pawl.Handle(r, pawl.Route{Name: "charge", Topics: []string{"payments"}}, decode.JSON(paymentIdentity),
		func(ctx context.Context, tx pgx.Tx, e pawl.Envelope[Payment]) error {
			_, err := tx.Exec(ctx, `insert into charge (attempt, account, amount) values ($1, $2, $3)`,
				e.Key, e.Stream, e.Body.Amount)
			return err
		})
	if err := r.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// On PostgreSQL with database/sql, for sqlc, gorm, ent and plain SQL: the handler gets the four methods that they need.
func ExampleHandle_databaseSQL() {
	ctx := context.Background()
	db, err := sql.Open("pgx", "postgres://localhost/billing")
	if err != nil {
		log.Fatal(err)
	}
	source := kafka.New(kafka.Config{Brokers: []string{"localhost:9092"}, Group: "billing"})

	r := pawl.NewRunner(postgres.NewSQL(db), source, pawl.Config{Consumer: "billing"})
	pawl.Handle(r, pawl.Route{Name: "charge", Topics: []string{"payments"}}, decode.JSON(paymentIdentity),
		func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[Payment]) error {
			_, err := tx.ExecContext(ctx, `insert into charge (attempt, account, amount) values ($1, $2, $3)`,
				e.Key, e.Stream, e.Body.Amount)
			return err
		})
	if err := r.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// Many records in one statement. Each Key is in a batch once; a record that is not marked is applied.
func ExampleHandleBatch() {
	var r *pawl.Runner[pgx.Tx] // as in the example of Handle

	pawl.HandleBatch(r, pawl.Route{Name: "charge", Topics: []string{"payments"}}, decode.JSON(paymentIdentity),
		func(ctx context.Context, tx pgx.Tx, b *pawl.Batch[Payment]) error {
			var attempts, accounts []string
			var amounts []int64
			for i, e := range b.All() {
				if e.Body.Amount == 0 {
					b.Ignore(i, "nothing to charge")
					continue
				}
				attempts, accounts, amounts = append(attempts, e.Key), append(accounts, e.Stream), append(amounts, e.Body.Amount)
			}
			_, err := tx.Exec(ctx, `
				insert into charge (attempt, account, amount)
				select * from unnest($1::text[], $2::text[], $3::bigint[])`, attempts, accounts, amounts)
			return err
		})
}
