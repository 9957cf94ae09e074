package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pawlhq/pawl"
)

func classifyTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"errors of handlers are told apart", classifyHandlers[Tx]},
		{"errors that are not the driver's are told apart", classifyOthers[Tx]},
	}
}

func classifyHandlers[Tx any](t *testing.T, h Harness[Tx]) {
	w := newWorld(t, h)
	w.exec(`create table parent (id integer primary key, n integer check (n > 0))`)
	w.exec(`create table child (id integer not null references parent (id))`)
	w.exec(`insert into parent (id, n) values (1, 1)`)
	c := w.client(binding())
	o := c.acquire(partition(0), 0)
	for _, tt := range []struct {
		query string
		want  pawl.Class
	}{
		{`insert into parent (id, n) values (1, 1)`, pawl.Validation},
		{`insert into parent (id, n) values (2, 0)`, pawl.Validation},
		{`insert into child (id) values (null)`, pawl.Validation},
		{`insert into child (id) values (99)`, pawl.Validation},
		{`insert into nowhere (id) values (1)`, pawl.Misconfigured},
		{`insert into parent (id, nothing) values (1, 1)`, pawl.Misconfigured},
		{`insert into into`, pawl.Misconfigured},
	} {
		failing := func(ctx context.Context, s pawl.Session[Tx], _ *pawl.Decision) error {
			if err := c.h.Exec(ctx, s.Tx(), tt.query); err != nil {
				return fmt.Errorf("handler: %w", err)
			}
			return errors.New("no error")
		}
		err := c.store.Apply(c.ctx, o, work(failing, record(partition(0), 0, "k", "v")))
		if got := c.store.Classify(err); got != tt.want {
			t.Errorf("%s: %v is %s, want %s", tt.query, err, got, tt.want)
		}
	}
}

func classifyOthers[Tx any](t *testing.T, h Harness[Tx]) {
	c := newWorld(t, h).client(binding())
	for _, tt := range []struct {
		err  error
		want pawl.Class
	}{
		{errors.New("something"), pawl.Unknown},
		{context.DeadlineExceeded, pawl.Transient},
		{fmt.Errorf("call: %w", context.Canceled), pawl.Transient},
		{&pawl.Error{Op: "open", Class: pawl.Misconfigured, Err: errors.New("x")}, pawl.Misconfigured},
	} {
		if got := c.store.Classify(tt.err); got != tt.want {
			t.Errorf("%v is %s, want %s", tt.err, got, tt.want)
		}
	}
}
