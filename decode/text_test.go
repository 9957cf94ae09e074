package decode

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestScannerJudgesEveryByteEverywhere puts each byte at each place of a string, because text is read eight bytes at a
// time. It asks the scanner alone: the package that makes the body would refuse most of what the scanner let through.
func TestScannerJudgesEveryByteEverywhere(t *testing.T) {
	set := &settings{maxBytes: DefaultMaxBytes, maxDepth: DefaultMaxDepth}
	for _, filler := range []string{"!", "[", "\x7f", "é"} {
		for length := range 17 {
			for at := range length + 1 {
				for b := range 256 {
					text := strings.Repeat(filler, at) + string([]byte{byte(b)}) + strings.Repeat(filler, length-at)
					for _, doc := range [][]byte{[]byte(`"` + text + `"`), []byte(`["` + text + `",12345678]`)} {
						_, err := scan(doc, set, nil)
						want := json.Valid(doc) && utf8.Valid(doc)
						if (err == nil) != want {
							t.Fatalf("%q: error is %v, want accepted: %v", doc, err, want)
						}
					}
				}
			}
		}
	}
}

// TestFoldAgreesWithEqualFold checks each character against all that strings.EqualFold takes for it.
func TestFoldAgreesWithEqualFold(t *testing.T) {
	fold := func(s string) string { return string(appendFold(nil, []byte(s))) }
	for r := rune(0); r <= 0x1ffff; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		s := string(r)
		for _, other := range []string{strings.ToUpper(s), strings.ToLower(s), strings.ToTitle(s)} {
			if (fold(s) == fold(other)) != strings.EqualFold(s, other) {
				t.Fatalf("%q and %q: fold to %q and %q", s, other, fold(s), fold(other))
			}
		}
	}
	for _, pair := range [][2]string{{"k", "\u212a"}, {"s", "ſ"}, {"å", "\u212b"}, {"σ", "ς"}} {
		if fold(pair[0]) != fold(pair[1]) || bytes.Equal([]byte(pair[0]), []byte(pair[1])) {
			t.Errorf("%q and %q fold to %q and %q", pair[0], pair[1], fold(pair[0]), fold(pair[1]))
		}
	}
}
