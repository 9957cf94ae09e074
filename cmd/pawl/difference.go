package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// change is one place where two values differ. What is missing is nil.
type change struct {
	Path   string          `json:"path"` // "$" is the whole
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

func (c change) String() string {
	text := func(v json.RawMessage) string {
		if v == nil {
			return "(none)"
		}
		return shorten(printable(string(v)), mostCell)
	}
	return fmt.Sprintf("%s: %s → %s", printable(c.Path), text(c.Before), text(c.After))
}

// differences are the places where two JSON documents differ; ok is false where one of them is none. Numbers are compared as
// they are written.
func differences(before, after []byte) (found []change, ok bool) {
	var x, y any
	if decodeExactly(before, &x) != nil || decodeExactly(after, &y) != nil {
		return nil, false
	}
	compare("$", x, y, &found)
	return found, true
}

func decodeExactly(text []byte, v *any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if dec.More() {
		return fmt.Errorf("there is more than one value")
	}
	return nil
}

func compare(path string, x, y any, found *[]change) {
	if a, ok := x.(map[string]any); ok {
		if b, ok := y.(map[string]any); ok {
			names := maps.Clone(a)
			maps.Copy(names, b)
			for _, name := range slices.Sorted(maps.Keys(names)) {
				one(path+"."+name, a, b, name, found)
			}
			return
		}
	}
	if a, ok := x.([]any); ok {
		if b, ok := y.([]any); ok && len(a) == len(b) {
			for i := range a {
				compare(path+"["+strconv.Itoa(i)+"]", a[i], b[i], found)
			}
			return
		}
	}
	if p, q := encode(x), encode(y); !bytes.Equal(p, q) {
		*found = append(*found, change{path, p, q})
	}
}

func one(path string, a, b map[string]any, name string, found *[]change) {
	x, inA := a[name]
	y, inB := b[name]
	switch {
	case inA && inB:
		compare(path, x, y, found)
	case inA:
		*found = append(*found, change{Path: path, Before: encode(x)})
	default:
		*found = append(*found, change{Path: path, After: encode(y)})
	}
}

func encode(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // it was decoded
	}
	return bytes.TrimSpace(b.Bytes())
}
