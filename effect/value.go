package effect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cockroachdb/apd/v3"

	"github.com/pawlhq/pawl"
)

// valueOf turns what a function returned into the Go type of a kind, and refuses what not every database can hold: a record
// that only one of them refuses would fail its whole batch.
func valueOf(kind pawl.Kind, v any) (any, error) {
	if v == nil || v == Keep {
		return v, nil
	}
	if raw, ok := v.(json.RawMessage); ok && kind != pawl.KindJSON {
		return valueOfJSON(kind, raw)
	}
	switch kind {
	case pawl.KindText:
		if s, ok := v.(string); ok {
			return s, validText(s)
		}
		if r := reflect.ValueOf(v); r.Kind() == reflect.String {
			return r.String(), validText(r.String())
		}
	case pawl.KindInt:
		if n, ok := v.(int64); ok {
			return n, nil
		}
		if n, ok := v.(json.Number); ok {
			return strconv.ParseInt(n.String(), 10, 64)
		}
		return whole(v)
	case pawl.KindDecimal:
		switch v := v.(type) {
		case string:
			return decimalText(v)
		case json.Number:
			return decimalText(v.String())
		case float64, float32:
			return nil, fmt.Errorf("%v is a float, which is not exact: hand over the decimal as text", v)
		}
		n, err := whole(v)
		if err != nil {
			return nil, err
		}
		return strconv.FormatInt(n, 10), nil
	case pawl.KindBool:
		if b, ok := v.(bool); ok {
			return b, nil
		}
	case pawl.KindTime:
		switch v := v.(type) {
		case time.Time:
			return instant(v)
		case string: // of a source of truth
			t, err := time.Parse(time.RFC3339Nano, v)
			if err != nil {
				return nil, fmt.Errorf("%q is no time: write it as in RFC 3339", v)
			}
			return instant(t)
		}
	case pawl.KindJSON:
		return jsonText(v)
	case pawl.KindBytes:
		if b, ok := v.([]byte); ok {
			if b == nil {
				return nil, nil
			}
			return b, nil
		}
	}
	return nil, fmt.Errorf("a %T cannot be written to a column of kind %s", v, kind)
}

func validText(s string) error {
	switch {
	case !utf8.ValidString(s):
		return errors.New("the text is not valid UTF-8")
	case strings.IndexByte(s, 0) >= 0:
		return errors.New("the text holds a NUL character")
	}
	return nil
}

func whole(v any) (int64, error) {
	r := reflect.ValueOf(v)
	switch {
	case r.CanInt():
		return r.Int(), nil
	case r.CanUint() && r.Uint() <= math.MaxInt64:
		return int64(r.Uint()), nil
	case r.CanUint():
		return 0, fmt.Errorf("%d does not fit into 64 bits with a sign", r.Uint())
	}
	return 0, fmt.Errorf("a %T is no whole number", v)
}

// instant is a time as every store keeps it.
func instant(t time.Time) (any, error) {
	if t.IsZero() {
		return nil, nil
	}
	t = t.UTC().Truncate(time.Microsecond)
	if y := t.Year(); y < 1 || y > 9999 {
		return nil, fmt.Errorf("the year %d is outside 1 to 9999", y)
	}
	return t, nil
}

func jsonText(v any) (any, error) {
	text, err := json.Marshal(v) // which compacts a RawMessage, and refuses one that is no JSON
	switch {
	case err != nil:
		return nil, err
	case bytes.Equal(text, []byte("null")):
		return nil, nil
	case !utf8.Valid(text):
		return nil, errors.New("the JSON is not valid UTF-8")
	case hasEscapedNUL(text):
		return nil, errors.New(`the JSON holds the character \u0000`)
	}
	return string(text), nil
}

// valueOfJSON reads a value of a source of truth.
func valueOfJSON(kind pawl.Kind, text json.RawMessage) (any, error) {
	if kind == pawl.KindBytes {
		var b []byte
		if err := json.Unmarshal(text, &b); err != nil {
			return nil, err
		}
		return valueOf(kind, b)
	}
	v, err := readJSON(string(text))
	if err != nil {
		return nil, err
	}
	return valueOf(kind, v)
}

// hasEscapedNUL looks for \u0000 that is not itself behind a backslash.
func hasEscapedNUL(text []byte) bool {
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' {
			if bytes.HasPrefix(text[i:], []byte(`\u0000`)) {
				return true
			}
			i++
		}
	}
	return false
}

// Decimals are bounded, so that no text makes arithmetic slow: far beyond any amount, and within what databases hold.
const maxDigits = 1000

// exact does not round.
var exact = &apd.BaseContext

func parseDecimal(s string) (*apd.Decimal, error) {
	if len(s) > maxDigits {
		return nil, fmt.Errorf("a decimal of %d characters: at most %d are taken", len(s), maxDigits)
	}
	d, _, err := apd.NewFromString(s)
	if err != nil || d.Form != apd.Finite {
		return nil, fmt.Errorf("%q is no decimal number", s)
	}
	if d.Exponent > maxDigits || d.Exponent < -maxDigits {
		return nil, fmt.Errorf("%q has an exponent beyond %d", s, maxDigits)
	}
	return d, nil
}

// plain spells a decimal without exponent, and zero without sign.
func plain(d *apd.Decimal) string {
	if d.IsZero() {
		d.Negative = false
	}
	return d.Text('f')
}

func decimalText(s string) (any, error) {
	d, err := parseDecimal(s)
	if err != nil {
		return nil, err
	}
	return plain(d), nil
}

// validKey refuses an event's Key that cannot be the key of a row.
func validKey(key string) error {
	const most = 1024 // what an index takes
	if len(key) > most {
		return fmt.Errorf("the key is %d bytes long; at most %d can be a row's", len(key), most)
	}
	if err := validText(key); err != nil {
		return fmt.Errorf("the key: %w", err)
	}
	return nil
}

// equal compares two values of a kind: decimals as numbers, times as instants, JSON by what it says.
func equal(kind pawl.Kind, a, b any) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	switch kind {
	case pawl.KindBytes:
		return bytes.Equal(a.([]byte), b.([]byte))
	case pawl.KindTime:
		return a.(time.Time).Equal(b.(time.Time))
	case pawl.KindDecimal:
		return a == b || sameNumber(a.(string), b.(string))
	case pawl.KindJSON:
		return a == b || sameJSON(a.(string), b.(string))
	}
	return a == b
}

func sameNumber(a, b string) bool {
	x, err := parseDecimal(a)
	if err != nil {
		return false
	}
	y, err := parseDecimal(b)
	return err == nil && x.Cmp(y) == 0
}

func sameJSON(a, b string) bool {
	x, errX := readJSON(a)
	y, errY := readJSON(b)
	return errX == nil && errY == nil && sameTree(x, y)
}

func readJSON(text string) (v any, err error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	return v, dec.Decode(&v)
}

func sameTree(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			if w, ok := b[k]; !ok || !sameTree(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !sameTree(a[i], b[i]) {
				return false
			}
		}
		return true
	case json.Number:
		b, ok := b.(json.Number)
		return ok && (a == b || sameNumber(a.String(), b.String()))
	}
	return a == b
}

// stateOf is a row as JSON, for evidence: decimals as text, since readers of JSON round numbers; "" where there is none.
func stateOf(t *pawl.Table, row pawl.Row) string {
	if row == nil {
		return ""
	}
	out := []byte{'{'}
	for i, v := range row {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendText(out, t.Columns[i].Name)
		out = append(out, ':')
		switch v := v.(type) {
		case nil:
			out = append(out, "null"...)
		case string:
			if t.Columns[i].Kind == pawl.KindJSON {
				out = append(out, v...)
			} else {
				out = appendText(out, v)
			}
		case time.Time:
			out = append(v.UTC().AppendFormat(append(out, '"'), time.RFC3339Nano), '"')
		default: // numbers, truth values; bytes as base64
			text, _ := json.Marshal(v)
			out = append(out, text...)
		}
	}
	return string(append(out, '}'))
}

func appendText(out []byte, s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.Encode(s) // a string always can be
	return append(out, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}
