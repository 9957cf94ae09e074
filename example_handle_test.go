package pawl_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
	"github.com/pawlhq/pawl/kafka"
	"github.com/pawlhq/pawl/kafka/embedded"
	"github.com/pawlhq/pawl/sqlite"
)

// A deposit arrives three times, once with another amount, and takes effect once. Everything is real but for the broker's size: the client speaks the
// Kafka protocol, the store is a file.
func ExampleHandle() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	dir, err := os.MkdirTemp("", "pawl")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	broker, err := embedded.Start(embedded.Config{Topics: []embedded.Topic{{Name: "deposits", Partitions: 1}}})
	if err != nil {
		log.Fatal(err)
	}
	defer broker.Close()
	produce(ctx, broker.Addrs(), "deposits", `{"id":"d-1","amount":5}`, `{"id":"d-1","amount":5}`, `{"id":"d-1","amount":6}`, `{"id":"d-2","amount":7}`)

	store, err := sqlite.Open(ctx, filepath.Join(dir, "bank.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(ctx); err != nil {
		log.Fatal(err)
	}

	type Deposit struct {
		ID     string `json:"id"`
		Amount int64  `json:"amount"`
	}
	settled := 0
	source := kafka.New(kafka.Config{Brokers: broker.Addrs(), Group: "bank"})
	r := pawl.NewRunner(store, source, pawl.Config{
		Consumer: "bank",
		Logger:   slog.New(slog.DiscardHandler),
		Hooks: pawl.Hooks{Settled: func(s pawl.Settled) {
			for _, d := range s.Decisions {
				fmt.Println(d.Identity.Key, d.Outcome)
			}
			if settled += len(s.Decisions); settled == 4 {
				stop()
			}
		}},
	})
	pawl.Handle(r, pawl.Route{Name: "deposit", Topics: []string{"deposits"}},
		decode.JSON(func(_ pawl.Meta, d Deposit) pawl.Identity { return pawl.Identity{Key: d.ID} }),
		func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[Deposit]) error {
			if _, err := tx.ExecContext(ctx, `create table if not exists balance (amount integer)`); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, `insert into balance (amount) values (?)`, e.Body.Amount)
			return err
		})
	if err := r.Run(ctx); err != nil {
		log.Fatal(err)
	}

	var sum int64
	if err := store.DB().QueryRow(`select sum(amount) from balance`).Scan(&sum); err != nil {
		log.Fatal(err)
	}
	fmt.Println("balance", sum)
	// Output:
	// d-1 applied
	// d-1 duplicate
	// d-1 quarantined
	// d-2 applied
	// balance 12
}

func produce(ctx context.Context, brokers []string, topic string, values ...string) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		log.Fatal(err)
	}
	defer cl.Close()
	for _, v := range values {
		if err := cl.ProduceSync(ctx, &kgo.Record{Value: []byte(v)}).FirstErr(); err != nil {
			log.Fatal(err)
		}
	}
}
