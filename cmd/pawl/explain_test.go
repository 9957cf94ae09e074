package main

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl"
)

func TestWhatStillWaitsIsToldFromWhatIsSettled(t *testing.T) {
	p := pawl.Partition{Topic: "payments"}
	event := func(offset int64, key string, o pawl.Outcome, claim bool) pawl.Evidence {
		return pawl.Evidence{Partition: p, Offset: offset, Identity: pawl.Identity{Key: key}, Outcome: o, Claim: claim}
	}
	act := func(offset int64, o pawl.Outcome) pawl.AuditEntry {
		return pawl.AuditEntry{Partition: p, Offset: offset, Quarantine: 1, Outcome: o}
	}
	for name, c := range map[string]struct {
		events []pawl.Evidence
		acts   []pawl.AuditEntry
		want   string
	}{
		"set aside":                      {[]pawl.Evidence{event(1, "a", pawl.Quarantined, false)}, nil, "; not decided: 1 quarantined"},
		"set aside, replayed":            {[]pawl.Evidence{event(1, "a", pawl.Quarantined, false), event(1, "a", pawl.Applied, true)}, nil, ""},
		"set aside, replayed in vain":    {[]pawl.Evidence{event(1, "a", pawl.Quarantined, false)}, []pawl.AuditEntry{act(1, pawl.Quarantined)}, "; not decided: 1 quarantined"},
		"two set aside, one archived":    {[]pawl.Evidence{event(1, "a", pawl.Quarantined, false), event(2, "b", pawl.Quarantined, false)}, []pawl.AuditEntry{act(1, 0)}, "; not decided: 1 quarantined"},
		"a conflict of a decided key":    {[]pawl.Evidence{event(1, "a", pawl.Applied, true), event(2, "a", pawl.Quarantined, false)}, nil, "; not decided: 1 quarantined"},
		"held":                           {[]pawl.Evidence{event(1, "a", pawl.Held, false)}, nil, "; not decided: 1 held"},
		"held, released":                 {[]pawl.Evidence{event(1, "a", pawl.Held, false), event(1, "a", pawl.Applied, true)}, nil, ""},
		"held, released as a duplicate":  {[]pawl.Evidence{event(0, "a", pawl.Applied, true), event(1, "a", pawl.Held, false)}, nil, ""},
		"held, then set aside":           {[]pawl.Evidence{event(1, "a", pawl.Held, false), event(1, "a", pawl.Quarantined, false)}, nil, "; not decided: 1 quarantined"},
		"duplicates and stale ones idle": {[]pawl.Evidence{event(1, "a", pawl.Duplicate, false), event(2, "b", pawl.WasStale, true)}, nil, "; without effect: 1 duplicate, 1 stale"},
	} {
		decided := map[string]bool{}
		for _, e := range c.events {
			decided[e.Identity.Key] = decided[e.Identity.Key] || e.Claim
		}
		if got := without(c.events, c.acts, decided); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// What records and errors say must not steer the terminal of who reads it.
func TestControlCharactersAreNotPrinted(t *testing.T) {
	for _, s := range []string{"\x1b[31mred", "a\rb", "bell\a", "\u202eright to left", "\x00", "bad \xff", "\u0085"} {
		got := printable(s)
		if strings.ContainsAny(got, "\x1b\r\a\x00\u202e\u0085") || !strings.Contains(got, "�") {
			t.Errorf("%q is printed as %q", s, got)
		}
	}
	if s := "línea uno\n\tzwei · три"; printable(s) != s {
		t.Errorf("%q is printed as %q", s, printable(s))
	}
}
