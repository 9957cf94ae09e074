// Package fault names the windows between durable steps, so that a test can stop the program in each of them.
//
// Production code calls Hit where a crash would fall between two durable steps. Without an injector in the context that
// costs one look-up and does nothing. A test puts an injector in the context and decides, window by window, to go on or
// to "crash": the call returns an error, and from then on every call does, so that nothing after the crash is done.
//
// The windows that exist are the ones that are hit: a loop that crashes at the n-th hit for n = 1, 2, 3, … until a run
// passes without a crash has visited every window, new ones included.
package fault

import (
	"context"
	"errors"
)

// Point is the name of a window.
type Point string

// The windows, in the order a record meets them. The numbers of the crash boundaries in docs/guarantee.md are beside them.
const (
	Taken         Point = "taken"          // B1: records are in a lane
	Decoded       Point = "decoded"        // B2, B3: decoded, no transaction yet
	Begun         Point = "begun"          // B4: transaction open, nothing written
	Looked        Point = "looked"         // prior decisions are known
	Handled       Point = "handled"        // B6: one handler call has returned
	Effected      Point = "effected"       // all effects are written, nothing claimed yet
	Claimed       Point = "claimed"        // B5: claims and evidence are written
	Quarantined   Point = "quarantined"    // B23: quarantined records are written
	Advanced      Point = "advanced"       // position and fence are written, not committed
	Committed     Point = "committed"      // B8, B9: committed, the caller does not know yet
	Settled       Point = "settled"        // B10: settled in memory, offset not committed
	OffsetStored  Point = "offset-stored"  // B11, B12: offset committed, the caller does not know yet
	Acquired      Point = "acquired"       // B28: epoch raised, position not read yet
	Revoking      Point = "revoking"       // B13: inside a revoke, before the drain
	Drained       Point = "drained"        // B14: drained, the last offsets not committed
	Released      Point = "released"       // fence given back
	MigrationStep Point = "migration-step" // B27: between two migrations
)

// ErrCrash is what an injector returns to stand for the death of the process.
var ErrCrash = errors.New("injected crash")

// Injector is asked at each window; a non-nil answer is the fault.
type Injector func(Point) error

type contextKey struct{}

// With returns a context whose Hits ask in.
func With(ctx context.Context, in Injector) context.Context {
	return context.WithValue(ctx, contextKey{}, in)
}

// Hit asks the context's injector, if there is one.
func Hit(ctx context.Context, p Point) error {
	in, ok := ctx.Value(contextKey{}).(Injector)
	if !ok {
		return nil
	}
	return in(p)
}

// Active reports whether the context has an injector.
func Active(ctx context.Context) bool {
	_, ok := ctx.Value(contextKey{}).(Injector)
	return ok
}
