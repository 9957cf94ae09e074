package pawl_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/pawltest"
)

// noting returns hooks of which each notes its name; by reflection, so that one that is added later is not forgotten.
func noting(name string, to *[]string) pawl.Hooks {
	var h pawl.Hooks
	v := reflect.ValueOf(&h).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		v.Field(i).Set(reflect.MakeFunc(f.Type, func([]reflect.Value) []reflect.Value {
			*to = append(*to, name+" "+f.Name)
			results := make([]reflect.Value, f.Type.NumOut())
			for i := range results {
				results[i] = reflect.Zero(f.Type.Out(i))
			}
			return results
		}))
	}
	return h
}

func TestJoinedHooksAreAllCalledInOrder(t *testing.T) {
	var calls []string
	joined := reflect.ValueOf(pawl.JoinHooks(noting("a", &calls), pawl.Hooks{}, noting("b", &calls)))
	for i := range joined.NumField() {
		f := joined.Type().Field(i)
		if joined.Field(i).IsNil() {
			t.Errorf("JoinHooks forgets %s", f.Name)
			continue
		}
		args := make([]reflect.Value, f.Type.NumIn())
		for i := range args {
			args[i] = reflect.Zero(f.Type.In(i))
		}
		calls = nil
		joined.Field(i).Call(args)
		if want := []string{"a " + f.Name, "b " + f.Name}; !slices.Equal(calls, want) {
			t.Errorf("%v, want %v", calls, want)
		}
	}
	none := reflect.ValueOf(pawl.JoinHooks(pawl.Hooks{}, pawl.Hooks{}))
	if !none.IsZero() {
		t.Error("hooks that do nothing are called")
	}
}

func TestJoinedTriesNest(t *testing.T) {
	type key string
	var calls []string
	trying := func(name string) pawl.Hooks {
		return pawl.Hooks{Trying: func(ctx context.Context, _ pawl.Try) (context.Context, func(pawl.Tried)) {
			outer, _ := ctx.Value(key("in")).(string)
			calls = append(calls, outer+name)
			return context.WithValue(ctx, key("in"), outer+name), func(pawl.Tried) { calls = append(calls, "end "+name) }
		}}
	}
	none := pawl.Hooks{Trying: func(ctx context.Context, _ pawl.Try) (context.Context, func(pawl.Tried)) { return ctx, nil }}
	_, over := pawl.JoinHooks(trying("a"), none, trying("b")).Trying(t.Context(), pawl.Try{})
	over(pawl.Tried{})
	if want := []string{"a", "ab", "end b", "end a"}; !slices.Equal(calls, want) {
		t.Errorf("%v, want %v", calls, want)
	}
}

// A handler's context comes from Trying, every try ends once, and only failures are told as such.
func TestATryIsObservedFromItsBeginToItsEnd(t *testing.T) {
	type key struct{}
	store, _ := openStore(t)
	b := newBench(
		pawltest.JSON(payment{ID: "1"}), pawltest.JSON(payment{ID: "2", Do: "later"}), pawltest.JSON(payment{ID: "3", Do: "fail"}),
		pawltest.JSON(payment{ID: "4", Do: "reject"}),
	)
	var mu sync.Mutex
	var begun, taken, settled int
	var ended []pawl.Tried
	cfg := b.config()
	cfg.MaxTries = 2
	cfg.Hooks = pawl.JoinHooks(cfg.Hooks, pawl.Hooks{
		Taken: func(_ pawl.Partition, n int) { mu.Lock(); defer mu.Unlock(); taken += n },
		Trying: func(ctx context.Context, try pawl.Try) (context.Context, func(pawl.Tried)) {
			mu.Lock()
			defer mu.Unlock()
			begun++
			if try.Records != len(try.Decisions) || try.Records == 0 || try.Routes[try.Decisions[0].Route] != "r" {
				t.Errorf("try %+v", try)
			}
			return context.WithValue(ctx, key{}, true), func(how pawl.Tried) { mu.Lock(); defer mu.Unlock(); ended = append(ended, how) }
		},
		Settled: func(s pawl.Settled) { mu.Lock(); defer mu.Unlock(); settled += s.Records },
	})
	r := pawl.NewRunner(store, b.log, cfg)
	asked, boom := false, errors.New("boom")
	pawl.Handle(r, pawl.Route{Name: "r", Topics: []string{pawltest.Topic}}, payments(),
		func(ctx context.Context, tx pawl.SQLTx, e pawl.Envelope[payment]) error {
			if ctx.Value(key{}) != true {
				t.Error("a handler did not get the context of its try")
			}
			switch {
			case e.Body.Do == "later" && !asked:
				asked = true
				return pawl.Later(time.Millisecond)
			case e.Body.Do == "fail":
				return boom
			case e.Body.Do == "reject":
				return pawl.Reject(nil)
			}
			return apply(ctx, tx, e.Body)
		})
	stop := start(t, r)
	b.until(t, "all settled", func() bool { return len(b.outcomes["r"]) == 4 })
	if err := stop(); err != nil {
		t.Error(err)
	}
	if taken != 4 || settled != 4 || begun != len(ended) {
		t.Errorf("%d taken, %d settled; %d tries began and %d ended", taken, settled, begun, len(ended))
	}
	failures, commits := 0, 0
	for _, e := range ended {
		if e.Committed {
			commits++
		}
		if e.Err != nil {
			failures++
			if !errors.Is(e.Err, boom) || e.Committed {
				t.Errorf("failed: %+v", e)
			}
		}
	}
	if failures == 0 || commits == 0 || failures+commits == len(ended) {
		t.Errorf("%d failures and %d commits in %d tries: some should be neither", failures, commits, len(ended))
	}
}
