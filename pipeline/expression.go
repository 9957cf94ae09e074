package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawlhq/pawl"
)

// program is an expression that was compiled.
type program struct {
	text     string
	kind     kind // of its value, as far as it is known
	optional bool // its value may be absent
	uses     map[string]bool
	eval     func(in *input) (any, error)
}

// kind is what an expression's value is.
type kind uint8

const (
	noKind      kind = iota
	dynKind          // only the record knows
	textKind         // string
	intKind          // int64
	decimalKind      // decimal
	boolKind         // bool
	timeKind         // time.Time
	jsonKind         // []any or map[string]any
	mapKind          // texts by name: a scope's
)

func (k kind) String() string {
	return [...]string{"nothing", "any value", "text", "int", "decimal", "bool", "timestamp", "json", "map"}[k]
}

// absentType is the value of what may be missing and is.
type absentType struct{}

var absent any = absentType{}

// scope is the names that an expression may use, and what they are.
type scope map[string]kind

// input is what an expression is evaluated on.
type input struct {
	doc     *Document
	id      *pawl.Identity // nil while it is being found
	headers []pawl.Header
	line    any // of the expressions of a line
}

// get returns what a name of a scope stands for, absent if there is nothing.
func (in *input) get(name string) (any, error) {
	orAbsent := func(s string) (any, error) {
		if s == "" {
			return absent, nil
		}
		return s, nil
	}
	switch name {
	case "$":
		if in.doc.Tombstone {
			return absent, nil
		}
		return in.doc.Body, nil
	case "line":
		return in.line, nil
	case "meta.key":
		if in.doc.Key == nil {
			return absent, nil
		}
		if !utf8.Valid(in.doc.Key) {
			return nil, errors.New("the record's key is not UTF-8")
		}
		return orAbsent(string(in.doc.Key))
	case "headers":
		m := map[string]any{}
		for _, h := range in.headers {
			if utf8.ValidString(h.Key) && utf8.Valid(h.Value) {
				m[h.Key] = string(h.Value)
			}
		}
		return m, nil
	case "ce":
		m := map[string]any{}
		for k, v := range in.doc.Attributes {
			m[k] = v
		}
		return m, nil
	case "meta.topic":
		return in.doc.Topic, nil
	case "meta.timestamp":
		return in.doc.Timestamp, nil
	case "meta.position":
		return in.doc.position, nil
	}
	if in.id == nil {
		return nil, fmt.Errorf("%s is not known here", name)
	}
	switch name {
	case "event.key":
		return orAbsent(in.id.Key)
	case "event.id":
		return orAbsent(in.id.EventID)
	case "event.stream":
		return orAbsent(in.id.Stream)
	case "event.stream_type":
		return orAbsent(in.id.StreamType)
	case "event.type":
		return orAbsent(in.id.Type)
	case "event.message_id":
		return orAbsent(in.id.MessageID)
	case "event.supersedes":
		return orAbsent(in.id.Supersedes)
	case "event.correlation":
		return orAbsent(in.id.CorrelationID)
	case "event.causation":
		return orAbsent(in.id.CausationID)
	case "event.version":
		if in.id.Version == 0 {
			return absent, nil
		}
		return in.id.Version, nil
	case "event.schema_version":
		if in.id.SchemaVersion == 0 {
			return absent, nil
		}
		return int64(in.id.SchemaVersion), nil
	case "event.at":
		if in.id.OccurredAt.IsZero() {
			return absent, nil
		}
		return in.id.OccurredAt, nil
	}
	return nil, fmt.Errorf("%s is not known", name)
}

// compile makes a program of an expression.
func compile(text string, sc scope) (*program, error) {
	if p := constant(text); p != nil {
		return p, nil
	}
	inner, to := conversion(text)
	if p, err := compilePath(inner, sc); p != nil || err != nil {
		if p != nil && to != noKind {
			p = p.as(to)
			p.text = text
		}
		return p, err
	}
	if to == jsonKind {
		return nil, errors.New("json() takes a plain path: json($.lines)")
	}
	return compileCEL(text, sc)
}

// constant takes whole numbers and texts in quotes without CEL.
func constant(text string) *program {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return &program{text: text, kind: intKind, eval: func(*input) (any, error) { return n, nil }}
	}
	if n := len(text); n >= 2 && (text[0] == '"' || text[0] == '\'') && text[n-1] == text[0] &&
		!strings.ContainsAny(text[1:n-1], `"'\`) {
		return &program{text: text, kind: textKind, eval: func(*input) (any, error) { return text[1 : n-1], nil }}
	}
	return nil
}

var conversions = map[string]kind{
	"int": intKind, "decimal": decimalKind, "timestamp": timeKind, "bool": boolKind, "string": textKind, "json": jsonKind,
}

// conversion splits int($.n) into the path and what it must be.
func conversion(text string) (inner string, to kind) {
	open := strings.IndexByte(text, '(')
	if open < 0 || !strings.HasSuffix(text, ")") {
		return text, noKind
	}
	if to = conversions[strings.TrimSpace(text[:open])]; to == noKind {
		return text, noKind
	}
	return strings.TrimSpace(text[open+1 : len(text)-1]), to
}

// as makes a program whose value is of a kind, or an error.
func (p *program) as(to kind) *program {
	from := p.eval
	return &program{text: p.text, kind: to, optional: p.optional, uses: p.uses, eval: func(in *input) (any, error) {
		v, err := from(in)
		if err != nil || v == absent {
			return v, err
		}
		if v == nil && to != jsonKind {
			return nil, nil
		}
		v, err = convert(v, to)
		if err != nil {
			err = fmt.Errorf("%s: %w", p.text, err)
		}
		return v, err
	}}
}

// convert makes a value what it must be: strictly, so that nothing is guessed or rounded.
func convert(v any, to kind) (any, error) {
	switch to {
	case textKind:
		switch v := v.(type) {
		case string:
			return v, nil
		case json.Number:
			return numberText(v)
		case int64:
			return strconv.FormatInt(v, 10), nil
		case bool:
			return strconv.FormatBool(v), nil
		case decimal:
			return v.text(), nil
		case time.Time:
			return v.UTC().Format(time.RFC3339Nano), nil
		}
	case intKind:
		switch t := v.(type) {
		case int64:
			return t, nil
		case json.Number:
			if n, err := number(t); err != nil {
				return nil, err
			} else if i, ok := n.(int64); ok {
				return i, nil
			}
			return nil, fmt.Errorf("%s is no whole number of 64 bits", clip(string(t), 40))
		case string:
			if i, err := strconv.ParseInt(t, 10, 64); err == nil {
				return i, nil
			}
			return nil, fmt.Errorf("%q is no whole number of 64 bits", clip(t, 40))
		}
	case decimalKind:
		switch v := v.(type) {
		case decimal:
			return v, nil
		case json.Number:
			return parseDecimal(string(v))
		case int64:
			return parseDecimal(strconv.FormatInt(v, 10))
		case string:
			return parseDecimal(v)
		}
	case boolKind:
		if b, ok := v.(bool); ok {
			return b, nil
		}
	case timeKind:
		switch t := v.(type) {
		case time.Time:
			return t, nil
		case string:
			at, err := time.Parse(time.RFC3339Nano, t)
			if err != nil {
				return nil, fmt.Errorf("%q is no time of RFC 3339", clip(t, 40))
			}
			return at, nil
		}
	case jsonKind:
		return v, nil
	case dynKind:
		return v, nil
	}
	return nil, fmt.Errorf("%s is no %s", describe(v), to)
}

// describe names a value without showing much of it.
func describe(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a text"
	case json.Number, int64, decimal:
		return "a number"
	case bool:
		return "a boolean"
	case time.Time:
		return "a time"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	}
	return "nothing"
}

// word evaluates to text: numbers by their one spelling, and never empty.
func (p *program) word(in *input) (string, error) {
	v, err := p.required(in, textKind)
	if err != nil {
		return "", err
	}
	s := v.(string)
	if s == "" {
		return "", fmt.Errorf("%s is empty", p.text)
	}
	return s, nil
}

// required evaluates to a value of a kind; what is absent or null is an error.
func (p *program) required(in *input, to kind) (any, error) {
	v, err := p.eval(in)
	if err != nil {
		return nil, err
	}
	if v == absent || v == nil {
		return nil, fmt.Errorf("%s has no value", p.text)
	}
	if v, err = convert(v, to); err != nil {
		return nil, fmt.Errorf("%s: %w", p.text, err)
	}
	return v, nil
}
