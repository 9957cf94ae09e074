package pawl_test

import (
	"testing"
	"time"

	"github.com/pawlhq/pawl"
)

func TestAsOfIsTheLastEventThatHadAnEffectByThen(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 3, 1, 10, minute, 0, 0, time.UTC) }
	e := func(route string, version int64, o pawl.Outcome, minute int) pawl.Evidence {
		return pawl.Evidence{Route: route, Identity: pawl.Identity{Version: version}, Outcome: o, Claim: o.Claims(), ProcessedAt: at(minute)}
	}
	stream := []pawl.Evidence{
		e("a", 1, pawl.Applied, 0), e("b", 9, pawl.Applied, 1), e("a", 4, pawl.Held, 1),
		e("a", 4, pawl.Applied, 5), e("a", 2, pawl.Applied, 5), e("a", 3, pawl.Applied, 5), // a gap was closed: in one commit
		e("a", 2, pawl.WasStale, 7),
	}
	for _, want := range []struct {
		minute  int
		version int64
	}{{-1, 0}, {0, 1}, {4, 1}, {5, 4}, {9, 4}} {
		got, ok := pawl.AsOf(stream, "a", at(want.minute))
		if ok != (want.version > 0) || got.Identity.Version != want.version {
			t.Errorf("at minute %d: version %d, %t; want %d", want.minute, got.Identity.Version, ok, want.version)
		}
	}
}
