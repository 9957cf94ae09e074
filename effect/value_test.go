package effect_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/effect"
)

type named string

func TestEachKindTakesItsValues(t *testing.T) {
	at := time.Date(2026, 7, 1, 14, 0, 0, 123456789, time.FixedZone("there", 2*3600))
	var none []byte
	for _, c := range []struct {
		kind  pawl.Kind
		value any
		want  string // of the row, or of the error
	}{
		{pawl.KindText, "x", "x"}, {pawl.KindText, named("y"), "y"}, {pawl.KindText, 5, "error: a int cannot be written"}, {pawl.KindText, nil, "-"},
		{pawl.KindInt, int64(5), "5"}, {pawl.KindInt, 5, "5"}, {pawl.KindInt, uint8(5), "5"}, {pawl.KindInt, json.Number("-7"), "-7"},
		{pawl.KindInt, uint64(math.MaxUint64), "error: 18446744073709551615 does not fit"}, {pawl.KindInt, 1.0, "error: a float64 is no whole number"},
		{pawl.KindInt, json.Number("1.5"), "error: strconv.ParseInt"}, {pawl.KindInt, "5", "error: a string is no whole number"},
		{pawl.KindDecimal, "-0.00", "0.00"}, {pawl.KindDecimal, "+1.50", "1.50"}, {pawl.KindDecimal, "1e3", "1000"}, {pawl.KindDecimal, 12, "12"},
		{pawl.KindDecimal, json.Number("2.50"), "2.50"}, {pawl.KindDecimal, float32(1), "error: 1 is a float"}, {pawl.KindDecimal, "", "error: \"\" is no decimal"},
		{pawl.KindDecimal, strings.Repeat("1", 1001), "error: a decimal of 1001 characters"}, {pawl.KindDecimal, "1e-2000", "error: \"1e-2000\" has an exponent"},
		{pawl.KindBool, true, "true"}, {pawl.KindBool, 1, "error: a int cannot"},
		{pawl.KindTime, at, "12:00:00.123456"}, {pawl.KindTime, time.Time{}, "-"}, {pawl.KindTime, "2026-07-01T14:00:00+02:00", "12:00:00"},
		{pawl.KindTime, "yesterday", "error: \"yesterday\" is no time"}, {pawl.KindTime, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), "error: the year 10000"},
		{pawl.KindJSON, map[string]int{"a": 1}, `{"a":1}`}, {pawl.KindJSON, json.RawMessage(`{ "a" : 1 }`), `{"a":1}`}, {pawl.KindJSON, "x", `"x"`},
		{pawl.KindJSON, json.RawMessage("null"), "-"}, {pawl.KindJSON, json.RawMessage("{"), "error: json:"}, {pawl.KindJSON, json.RawMessage("\"\xff\""), "error: the JSON is not valid UTF-8"},
		{pawl.KindBytes, []byte{1, 2}, "[1 2]"}, {pawl.KindBytes, none, "-"}, {pawl.KindBytes, "x", "error: a string cannot"},
		{pawl.KindBytes, json.RawMessage(`"AQI="`), "[1 2]"}, {pawl.KindText, json.RawMessage(`"x"`), "x"}, {pawl.KindText, json.RawMessage(`{`), "error: unexpected EOF"},
		{pawl.KindInt, json.RawMessage(`5`), "5"}, {pawl.KindBool, json.RawMessage(`true`), "true"}, {pawl.KindTime, json.RawMessage(`null`), "-"},
	} {
		w := newWorld(t, &effect.Audit[doc]{Table: "t", Key: "k", Columns: []effect.Column[doc]{
			{Name: "c", Kind: c.kind, Value: func(*pawl.Envelope[doc]) (any, error) { return c.value, nil }},
		}})
		got := ""
		if v := w.fold(keyed("k", ev("s", 1, doc{})))[0]; v.Outcome == pawl.Applied {
			got = strings.TrimPrefix(w.table("t"), "k ")
		} else {
			got = strings.Replace(v.Reason, `column "c"`, "error", 1)
		}
		if ok := got == c.want || strings.HasPrefix(c.want, "error") && strings.HasPrefix(got, c.want); !ok {
			t.Errorf("%s %s: %q, want %q", c.kind, fmt.Sprint(c.value), got, c.want)
		}
	}
}

func TestValuesOfAKindAreComparedByWhatTheySay(t *testing.T) {
	at := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		kind pawl.Kind
		a, b any
		same bool
	}{
		{pawl.KindBytes, []byte{1}, []byte{1}, true}, {pawl.KindBytes, []byte{1}, []byte{2}, false}, {pawl.KindBytes, []byte{}, nil, false},
		{pawl.KindTime, at, at.In(time.FixedZone("x", 3600)).Add(time.Nanosecond), true}, {pawl.KindTime, at, at.Add(time.Microsecond), false},
		{pawl.KindBool, true, true, true}, {pawl.KindBool, true, false, false}, {pawl.KindInt, int64(1), 1, true}, {pawl.KindInt, 1, 2, false},
		{pawl.KindJSON, json.RawMessage(`1e400`), json.RawMessage(`10e399`), true}, {pawl.KindJSON, json.RawMessage(`9007199254740993`), json.RawMessage(`9007199254740992`), false},
		{pawl.KindJSON, json.RawMessage(`[true]`), json.RawMessage(`["true"]`), false}, {pawl.KindText, nil, nil, true},
	} {
		value := c.a
		w := newWorld(t, &effect.Projection[doc]{Table: "t", Stream: "s", Version: "v", Columns: []effect.Column[doc]{
			{Name: "c", Kind: c.kind, Value: func(*pawl.Envelope[doc]) (any, error) { return value, nil }},
		}})
		want(t, w.fold(ev("s", 1, doc{})), "applied")
		value = c.b
		outcome := "duplicate"
		if !c.same {
			outcome = "quarantined conflict"
		}
		want(t, w.fold(ev("s", 1, doc{})), outcome)
	}
}
