package pawl

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestKeysThatAreIdsKeepTheirOrderAndCanBeReadBack(t *testing.T) {
	for _, c := range []struct {
		key  string
		form KeyForm
	}{
		{"0198d5a4-7c00-7000-8000-0123456789ab", KeyUUID},
		{"ffffffff-ffff-ffff-ffff-ffffffffffff", KeyUUID},
		{"01JZ4Y2HVR7Q9Y2NJ5K40M5QJ8", KeyULID},
		{"7ZZZZZZZZZZZZZZZZZZZZZZZZZ", KeyULID},
		{"00000000000000000000000000", KeyULID},
	} {
		id := NewKeyID(c.key)
		if id.Form != c.form {
			t.Errorf("%s has form %d, want %d", c.key, id.Form, c.form)
		}
		if back, ok := id.Key(); !ok || back != c.key {
			t.Errorf("%s reads back as %q", c.key, back)
		}
	}
	a, b := NewKeyID("01JZ4Y2HVR7Q9Y2NJ5K40M5QJ8"), NewKeyID("01JZ4Y2HVR7Q9Y2NJ5K40M5QJ9")
	if string(a.ID[:]) >= string(b.ID[:]) {
		t.Error("a later ULID does not sort later")
	}
}

// Another spelling of the same id is another key: keys are compared as they are written.
func TestOtherSpellingsAreOtherKeys(t *testing.T) {
	for _, key := range []string{
		"0198D5A4-7C00-7000-8000-0123456789AB", "{0198d5a4-7c00-7000-8000-0123456789ab}", "0198d5a47c0070008000-0123456789ab",
		"01jz4y2hvr7q9y2nj5k40m5qj8", "81JZ4Y2HVR7Q9Y2NJ5K40M5QJ8", "01JZ4Y2HVR7Q9Y2NJ5K40M5QJU", "", "\x00", "\xff", strings.Repeat("x", 1<<20),
	} {
		id := NewKeyID(key)
		if id.Form != KeyHashed {
			t.Errorf("%.40q has form %d, want it hashed", key, id.Form)
		}
		if id.ID[6]>>4 != 8 || id.ID[8]>>6 != 2 {
			t.Errorf("%.40q: %x is not in UUIDv8 form", key, id.ID)
		}
	}
}

func TestDistinctKeysHaveDistinctIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gen := rapid.OneOf(
			rapid.String(),
			rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`),
			rapid.StringMatching(`[0-7][0-9A-HJKMNP-TV-Z]{25}`),
		)
		a, b := gen.Draw(t, "a"), gen.Draw(t, "b")
		x, y := NewKeyID(a), NewKeyID(b)
		if (a == b) != (x == y) {
			t.Fatalf("%q and %q: %v and %v", a, b, x, y)
		}
		if back, ok := x.Key(); ok && back != a {
			t.Fatalf("%q reads back as %q", a, back)
		}
	})
}
