package effect

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl"
)

// Column is a column of a table, and how its value is found in an event. The constructors below make the usual ones; for a
// value that may be absent or wrong, fill it in.
type Column[T any] struct {
	Name string
	Kind pawl.Kind

	// Value returns what to write: nil for NULL, [Keep] to leave the column as it is. An error quarantines the event. Beside the
	// type of the kind, whole numbers of any Go type are an int or a decimal, and what is not text, bytes or a time in Go
	// becomes JSON by encoding/json. A float is no decimal.
	Value func(e *pawl.Envelope[T]) (any, error)

	// Note says that the column describes the event and not the state: its id, when it came. It is not compared when two
	// events claim to be the same version.
	Note bool

	// NotNull quarantines an event that has no value for the column.
	NotNull bool
}

// Keep is returned by [Column].Value to leave a column as it was: NULL in a row that is new.
var Keep any = keep{}

type keep struct{}

// Text is a text column.
func Text[T any](name string, f func(e *pawl.Envelope[T]) string) Column[T] {
	return column(name, pawl.KindText, f)
}

// Int is a column of whole numbers.
func Int[T any](name string, f func(e *pawl.Envelope[T]) int64) Column[T] {
	return column(name, pawl.KindInt, f)
}

// Decimal is a column of exact numbers, such as "-12.50".
func Decimal[T any](name string, f func(e *pawl.Envelope[T]) string) Column[T] {
	return column(name, pawl.KindDecimal, f)
}

// Bool is a column of truth values.
func Bool[T any](name string, f func(e *pawl.Envelope[T]) bool) Column[T] {
	return column(name, pawl.KindBool, f)
}

// Time is a column of instants, kept to the microsecond. The zero time is NULL.
func Time[T any](name string, f func(e *pawl.Envelope[T]) time.Time) Column[T] {
	return column(name, pawl.KindTime, f)
}

// JSON is a column that holds what encoding/json makes of the value: a string becomes a JSON string, a json.RawMessage is
// taken as it is, null is NULL.
func JSON[T any](name string, f func(e *pawl.Envelope[T]) any) Column[T] {
	return column(name, pawl.KindJSON, f)
}

// Bytes is a column of bytes. Nil is NULL.
func Bytes[T any](name string, f func(e *pawl.Envelope[T]) []byte) Column[T] {
	return column(name, pawl.KindBytes, f)
}

func column[T, V any](name string, kind pawl.Kind, f func(e *pawl.Envelope[T]) V) Column[T] {
	c := Column[T]{Name: name, Kind: kind}
	if f != nil {
		c.Value = func(e *pawl.Envelope[T]) (any, error) { return f(e), nil }
	}
	return c
}

// Note returns c as a column that describes the event and not the state: see [Column].
func Note[T any](c Column[T]) Column[T] {
	c.Note = true
	return c
}

// NotNull returns c as a column that every event must have a value for.
func NotNull[T any](c Column[T]) Column[T] {
	c.NotNull = true
	return c
}

// columns are those of a table that are filled from events.
type columns[T any] []Column[T]

// fill puts the values of an event into to, as the kinds want them. A function that panics is as one that returns an error:
// the event is to blame, and the others of the batch are not.
func (cs columns[T]) fill(e *pawl.Envelope[T], to []any) (err error) {
	at := 0
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("column %q: panic: %v", cs[at].Name, v)
		}
	}()
	for ; at < len(cs); at++ {
		c := &cs[at]
		v, err := c.Value(e)
		if err == nil {
			v, err = valueOf(c.Kind, v)
		}
		if err == nil && v == nil && c.NotNull {
			err = errors.New("has no value")
		}
		if err != nil {
			return fmt.Errorf("column %q: %w", c.Name, err)
		}
		to[at] = v
	}
	return nil
}

// recovered turns a panic of a function of the user's into an error: the event is to blame, and not its batch.
func recovered(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("panic: %v", v)
	}
}

// none makes NULL of what is to be kept, in a row that is new.
func none(values []any) {
	for i, v := range values {
		if v == Keep {
			values[i] = nil
		}
	}
}

// same reports whether a row says what an event says. Notes are not compared, nor what the event keeps.
func (cs columns[T]) same(row, values []any) bool {
	for i := range cs {
		if !cs[i].Note && values[i] != Keep && !equal(cs[i].Kind, row[i], values[i]) {
			return false
		}
	}
	return true
}

// settle puts what an event says into a row.
func settle(row, values []any) {
	for i, v := range values {
		if v != Keep {
			row[i] = v
		}
	}
}

// check adds what is wrong with the columns.
func (cs columns[T]) check(p *problems) {
	for i, c := range cs {
		if c.Value == nil {
			p.add("column %d (%q) has no function that finds its value", i+1, c.Name)
		}
	}
}

func (cs columns[T]) of(table *pawl.Table) {
	for _, c := range cs {
		table.Columns = append(table.Columns, pawl.Column{Name: c.Name, Kind: c.Kind, NotNull: c.NotNull})
	}
}

// problems gathers what is wrong with a declaration, so that all of it is said at once.
type problems struct {
	what string
	errs []error
}

func (p *problems) add(format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf(p.what+": "+format, args...))
}

// need refuses an empty name.
func (p *problems) need(field, value string) {
	if value == "" {
		p.add("%s is empty", field)
	}
}

// tables returns the tables of a declaration, or all that is wrong with it.
func (p *problems) tables(ts ...*pawl.Table) ([]*pawl.Table, error) {
	for _, t := range ts {
		if t.Name == "" {
			continue // said already
		}
		if err := t.Validate(); err != nil {
			p.add("%w", err)
		}
	}
	return ts, errors.Join(p.errs...)
}
