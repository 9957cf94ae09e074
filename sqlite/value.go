package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/decimal"
)

// timeFormat of a KindTime: it sorts, and SQLite's date functions read it.
const timeFormat = "2006-01-02T15:04:05.000000Z"

// Other spellings of a time that a default or another program may have written, those without a zone in UTC.
var timeFormats = []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999"}

// mistaken is for what no record can be blamed for.
func (t *table) mistaken(format string, args ...any) error {
	return &pawl.Error{Op: fmt.Sprintf("write %q", t.Name), Class: pawl.Misconfigured, Err: fmt.Errorf(format, args...), Hint: "the effect is at fault"}
}

// refused is for a value that the column cannot hold.
func (t *table) refused(c *pawl.Column, class pawl.Class, format string, args ...any) error {
	return &pawl.Error{Op: fmt.Sprintf("write column %q of %q", c.Name, t.Name), Class: class, Err: fmt.Errorf(format, args...)}
}

// store sets args to the first n values of a row, which has no more, as they are kept. SQLite would keep anything: what is
// refused here is what another database refuses.
func (t *table) store(args []any, row pawl.Row, n int) error {
	if len(row) != n {
		return t.mistaken("a row has %d values for %d columns", len(row), n)
	}
	for i, v := range row {
		c := &t.Columns[i]
		if b, ok := v.([]byte); ok && b == nil {
			v = nil
		}
		if v == nil {
			if args[i] = nil; i < t.Key {
				return t.refused(c, pawl.Validation, "a key is null")
			} else if c.NotNull {
				return t.refused(c, pawl.Validation, "it must not be null")
			}
			continue
		}
		kept, typed, err := stored(c.Kind, v)
		switch {
		case !typed:
			return t.mistaken("column %q is of kind %s, and got a %T", c.Name, c.Kind, v)
		case err != nil:
			return t.refused(c, pawl.Poison, "%w", err)
		}
		args[i] = kept
	}
	return nil
}

// stored is a value as it is kept; typed is false for a value of another kind.
func stored(k pawl.Kind, v any) (kept any, typed bool, err error) {
	switch v := v.(type) {
	case string:
		switch k {
		case pawl.KindText:
			return v, true, storable(v)
		case pawl.KindJSON:
			if !json.Valid([]byte(v)) {
				err = errors.New("it is not JSON")
			}
			return v, true, errors.Join(err, storable(v))
		case pawl.KindDecimal:
			plain, err := decimal.Plain(v)
			return plain, true, err
		}
	case int64:
		return v, k == pawl.KindInt, nil
	case bool:
		return v, k == pawl.KindBool, nil
	case []byte:
		return v, k == pawl.KindBytes, nil
	case time.Time:
		if v = v.UTC(); v.Year() < 1 || v.Year() > 9999 {
			err = fmt.Errorf("year %d is none that is kept", v.Year())
		}
		return v.Format(timeFormat), k == pawl.KindTime, err
	}
	return nil, false, nil
}

// storable refuses what SQLite would cut off or hand back as something else.
func storable(s string) error {
	if strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) {
		return errors.New("it has bytes that are no text")
	}
	return nil
}

// load gives the values of a row that was read the types that their kinds have.
func (t *table) load(row pawl.Row) error {
	for i, v := range row {
		if v == nil {
			continue
		}
		c := &t.Columns[i]
		loaded, ok := loaded(c.Kind, v)
		if !ok {
			return &pawl.Error{Op: fmt.Sprintf("read column %q of %q", c.Name, t.Name), Class: pawl.Corruption,
				Err: fmt.Errorf("a value of SQLite type %s is no %s", typeName(v), c.Kind)}
		}
		row[i] = loaded
	}
	return nil
}

func loaded(k pawl.Kind, v any) (any, bool) {
	switch v := v.(type) {
	case string:
		switch k {
		case pawl.KindText, pawl.KindJSON:
			return v, true
		case pawl.KindDecimal:
			_, ok := decimal.Scale(v)
			return v, ok
		case pawl.KindTime:
			for _, format := range append([]string{timeFormat}, timeFormats...) {
				if t, err := time.Parse(format, v); err == nil {
					return t.UTC(), true
				}
			}
		}
	case int64:
		switch k {
		case pawl.KindInt:
			return v, true
		case pawl.KindBool:
			return v != 0, true
		case pawl.KindDecimal: // in a column without a type
			return strconv.FormatInt(v, 10), true
		}
	case []byte:
		if v == nil {
			v = []byte{}
		}
		return v, k == pawl.KindBytes
	}
	return nil, false
}

func typeName(v any) string {
	switch v.(type) {
	case int64:
		return "integer"
	case float64:
		return "real"
	case []byte:
		return "blob"
	}
	return "text"
}
