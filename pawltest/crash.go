package pawltest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/fault"
)

// EveryCrash runs a handler over records once for every window between two durable steps, crashes there, starts again,
// and calls check on what is then in the store. open makes a fresh store, on a fresh database with the handler's tables,
// for each window. The last call is of a run that met no crash.
//
// A crash is simulated: everything after the window fails, nothing more is committed, and what was in memory is gone. A
// handler that keeps state in memory, or writes beside its transaction, is shown by check.
func EveryCrash[S pawl.Store[Tx], Tx, T any](
	t testing.TB, open func(testing.TB) S, dec pawl.Decoder[T], h Handler[Tx, T], records []pawl.Record, check func(testing.TB, S),
) {
	t.Helper()
	everyCrash(t, open, func(r *pawl.Runner[Tx]) { pawl.Handle(r, route, dec, h) }, records, check)
}

// EveryCrashBatch is EveryCrash for a batch handler.
func EveryCrashBatch[S pawl.Store[Tx], Tx, T any](
	t testing.TB, open func(testing.TB) S, dec pawl.Decoder[T], h BatchHandler[Tx, T], records []pawl.Record, check func(testing.TB, S),
) {
	t.Helper()
	everyCrash(t, open, func(r *pawl.Runner[Tx]) { pawl.HandleBatch(r, route, dec, h) }, records, check)
}

// EveryCrashEffect is EveryCrash for a declared effect.
func EveryCrashEffect[S pawl.Store[Tx], Tx, T any](
	t testing.TB, open func(testing.TB) S, dec pawl.Decoder[T], e pawl.Effect[T], records []pawl.Record, check func(testing.TB, S),
) {
	t.Helper()
	everyCrash(t, open, func(r *pawl.Runner[Tx]) { pawl.Apply(r, route, dec, e) }, records, check)
}

func everyCrash[S pawl.Store[Tx], Tx any](
	t testing.TB, open func(testing.TB) S, register func(*pawl.Runner[Tx]), records []pawl.Record, check func(testing.TB, S),
) {
	t.Helper()
	for n, more := 1, true; more && !t.Failed(); n++ {
		scope(t, fmt.Sprintf("crash-%d", n), func(t testing.TB) {
			more = false // in case open ends the subtest, by skipping it perhaps
			more = crashAt(t, n, open(t), register, records, check)
			if n == 1 && !more {
				t.Fatal("pawltest: no window was met: nothing was tested")
			}
		})
	}
}

// scope gives each window a subtest where t can have one, so that what open made is cleaned up before the next.
func scope(t testing.TB, name string, f func(testing.TB)) {
	if tt, ok := t.(interface {
		Run(string, func(*testing.T)) bool
	}); ok {
		tt.Run(name, func(t *testing.T) { f(t) })
		return
	}
	f(t)
}

// crashAt crashes in the n-th window, starts again, and checks. It reports whether there was such a window.
func crashAt[S pawl.Store[Tx], Tx any](
	t testing.TB, n int, store S, register func(*pawl.Runner[Tx]), records []pawl.Record, check func(testing.TB, S),
) bool {
	t.Helper()
	laid := lay(newTopicID(), records)
	log := NewLog(laid)
	cfg := config()
	cfg.MaxBatch = 3 // several transactions, so that a crash falls between them too

	crash := fault.NewCrash(n)
	ctx, cancel := context.WithTimeout(fault.With(t.Context(), crash.Inject), patience)
	defer cancel()
	err := until(ctx, newWatch(laid), store, log, cfg, register)
	at, fired := crash.Fired()
	if err != nil && !errors.Is(err, fault.ErrCrash) {
		t.Fatalf("pawltest: crash %d, at %q: %v", n, at, err)
	}

	if fired {
		w := newWatch(laid)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := until(ctx, w, store, log, cfg, register); err != nil {
			t.Fatalf("pawltest: after crash %d, at %q: %v", n, at, err)
		}
		if left := w.left(); len(left) > 0 {
			t.Fatalf("pawltest: after crash %d, at %q: not settled: %v; last failure: %v", n, at, left, w.lastFailure())
		}
	}
	if check(t, store); t.Failed() {
		t.Errorf("pawltest: the above is after crash %d, at %q", n, at)
	}
	return fired
}
