// Package effect has the declared effects: what becomes of events, stated instead of programmed.
//
//	pawl.Apply(r, route, dec, &effect.Projection[Case]{
//		Table: "case_projection", Stream: "case_id", Version: "version",
//		Columns: []effect.Column[Case]{
//			effect.Text("status", func(e *pawl.Envelope[Case]) string { return e.Body.Status }),
//			effect.Note(effect.Text("last_event_id", func(e *pawl.Envelope[Case]) string { return e.EventID })),
//		},
//		Early: effect.Early{Hold: 10 * time.Minute},
//	})
//
// They are
//
//	Projection   one row per stream, moved from version to version
//	Workflow     the same with a state machine: only allowed transitions
//	Ledger       immutable entries, exact, with cached balances and invariants
//	Counter      totals per group, late and corrected contributions included
//	Audit        one row per event, never changed
//	State        the latest value per key of a compacted topic
//	Commands     rows that have to exist, by a stable identity
//
// Each folds a batch in memory, event by event in order, and writes it in a few statements. For every event it says what it
// decided and why; nothing it decides depends on where one batch ends and the next begins, but for the bounds on what is held.
// The tables are the user's: Pawl creates none of them, and checks at the start that they have the columns named here.
//
// An event that cannot be mapped (a function returns an error, or a value that its column cannot hold) is quarantined alone.
// Functions may be called several times for one event, and must not change it.
package effect
