package pipeline

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl"
)

// step is one step of a path: into a member, or an element.
type step struct {
	name     string
	index    int // -1: by name
	optional bool
	upTo     string // the path up to here, for errors
}

// compilePath compiles a plain path. It returns nil where text is something else.
func compilePath(text string, sc scope) (*program, error) {
	root, rest := text, ""
	if i := strings.IndexAny(text, ".["); i >= 0 {
		root, rest = text[:i], text[i:]
	}
	if root != "$" && !isIdent(root) {
		return nil, nil
	}
	steps, ok := parseSteps(root, rest)
	if !ok {
		return nil, nil
	}
	// event.id and meta.topic are names by themselves.
	name := root
	if _, ok := sc[root]; !ok && len(steps) > 0 && steps[0].index < 0 && !steps[0].optional {
		name, steps = root+"."+steps[0].name, steps[1:]
	}
	k, ok := sc[name]
	if !ok {
		if root == "$" || isRoot(root, sc) {
			return nil, unknownName(name, sc)
		}
		return nil, nil // CEL says what is wrong with it
	}
	p := &program{text: text, kind: k, uses: map[string]bool{name: true}}
	for _, s := range steps {
		p.optional = p.optional || s.optional
	}
	switch {
	case len(steps) == 0:
		p.eval = func(in *input) (any, error) { return named(in, name) }
	case name == "headers" && len(steps) == 1 && steps[0].index < 0:
		p.kind = textKind
		p.eval = func(in *input) (any, error) { return header(in.headers, steps[0]) }
	case name == "ce" && len(steps) == 1 && steps[0].index < 0:
		p.kind = textKind
		p.eval = func(in *input) (any, error) {
			v, ok := in.doc.Attributes[steps[0].name]
			return orMissing(v, ok, steps[0])
		}
	case k == dynKind:
		p.eval = func(in *input) (any, error) {
			v, err := named(in, name)
			if err != nil {
				return nil, err
			}
			return walk(v, steps)
		}
	default:
		return nil, fmt.Errorf("%s is %s: it has no members", name, k)
	}
	return p, nil
}

// named is what a name stands for. Identity that an event may lack is absent; a document that is missing is an error.
func named(in *input, name string) (any, error) {
	v, err := in.get(name)
	if err == nil && v == absent && name == "$" {
		return nil, fmt.Errorf("a tombstone has no document")
	}
	return v, err
}

func isRoot(root string, sc scope) bool {
	if root == "event" { // also where there are none, or none yet
		return true
	}
	for n := range sc {
		if strings.HasPrefix(n, root+".") {
			return true
		}
	}
	return false
}

func unknownName(name string, sc scope) *celError {
	e := &celError{message: fmt.Sprintf("%s is not known here", name), line: 1, col: 1}
	known := sc.names()
	if name == "meta.partition" || name == "meta.offset" {
		e.hint = "a place in the log tells two copies of an event apart: use what the event says of itself. The whole place is meta.position"
	} else if w := nearest(name, known); w != "" {
		e.hint = "did you mean " + w + "?"
	} else if part, ok := strings.CutPrefix(name, "event."); ok {
		var parts []string
		for _, f := range fieldsOf(reflect.TypeFor[Event]()) {
			parts = append(parts, f.key)
		}
		if w := nearest(part, parts); w != "" {
			part = w
		}
		e.hint = "declare it in the event section, of the document: event: {" + part + ": $.name}"
	} else {
		e.hint = "known are " + strings.Join(known, ", ")
	}
	return e
}

func isIdent(s string) bool {
	for i, c := range []byte(s) {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// parseSteps reads .a, .?a, [0], ["a"] and [?"a"].
func parseSteps(root, rest string) (steps []step, ok bool) {
	done := root
	for rest != "" {
		s := step{index: -1}
		var used int
		switch rest[0] {
		case '.':
			body := rest[1:]
			used = 1
			if strings.HasPrefix(body, "?") {
				s.optional, body, used = true, body[1:], 2
			}
			end := strings.IndexAny(body, ".[")
			if end < 0 {
				end = len(body)
			}
			if s.name = body[:end]; !isIdent(s.name) {
				return nil, false
			}
			used += end
		case '[':
			end := strings.IndexByte(rest, ']')
			if end < 0 {
				return nil, false
			}
			inner := rest[1:end]
			if after, is := strings.CutPrefix(inner, "?"); is {
				s.optional, inner = true, after
			}
			used = end + 1
			if n, err := strconv.ParseUint(inner, 10, 31); err == nil {
				s.index = int(n)
			} else if len(inner) > 2 && (inner[0] == '"' || inner[0] == '\'') && inner[len(inner)-1] == inner[0] &&
				!strings.ContainsAny(inner[1:len(inner)-1], `"'\`) {
				s.name = inner[1 : len(inner)-1]
			} else {
				return nil, false
			}
		default:
			return nil, false
		}
		done += rest[:used]
		s.upTo, rest = done, rest[used:]
		steps = append(steps, s)
		if len(steps) > maxExprDepth {
			return nil, false
		}
	}
	return steps, true
}

// walk follows steps into a document.
func walk(v any, steps []step) (any, error) {
	may := false // an optional step was taken: what is missing behind it is absent too
	for i := range steps {
		s := &steps[i]
		may = may || s.optional
		switch at := v.(type) {
		case map[string]any:
			if s.index >= 0 {
				return nil, fmt.Errorf("%s: an object has no element %d", s.upTo, s.index)
			}
			var ok bool
			if v, ok = at[s.name]; !ok {
				return orMissing(nil, false, *s)
			}
		case []any:
			if s.index < 0 {
				return nil, fmt.Errorf("%s: a list has no member %q", s.upTo, s.name)
			}
			if s.index >= len(at) {
				return orMissing(nil, false, *s)
			}
			v = at[s.index]
		case nil:
			if may {
				return absent, nil
			}
			return nil, fmt.Errorf("%s: what it is in is null", s.upTo)
		default:
			return nil, fmt.Errorf("%s: what it is in is %s", s.upTo, describe(v))
		}
	}
	return v, nil
}

// orMissing is a value that may not be there.
func orMissing(v any, ok bool, s step) (any, error) {
	switch {
	case ok && v != nil:
		return v, nil
	case s.optional:
		return absent, nil
	}
	return nil, fmt.Errorf("%s is missing", s.upTo)
}

func header(all []pawl.Header, s step) (any, error) {
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Key == s.name {
			return headerText(all[i].Value, s.upTo)
		}
	}
	return orMissing(nil, false, s)
}
