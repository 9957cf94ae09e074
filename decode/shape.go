package decode

import (
	stdencoding "encoding"
	encoding "encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
)

// shape is what a type says about the names in a document: a struct knows its members' names, a map takes any, a list
// has none. A type that reads its own JSON, or a plain value, has no shape (nil).
type shape struct {
	kind shapeKind
	elem *shape // of lists and maps

	// Of structs.
	fields  []field
	byName  map[string]int
	byFold  map[string]int // by appendFold of the name; the first of those that fold to the same
	hasRest bool           // there is an embedded map that takes the other members
}

type shapeKind uint8

const (
	structShape shapeKind = iota + 1
	mapShape
	listShape
)

type field struct {
	name  string
	shape *shape
}

// shapes is what is known of a type and all the types it is made of.
type shapes struct {
	root    *shape
	byType  map[reflect.Type]*shape
	structs []reflect.Type
	invalid error

	hasAny      bool // an interface without methods
	hasNamedAny bool // such an interface that is not any itself
	hasNumber   bool // an encoding/json.Number
	quotesText  bool // the option string on text or a boolean
}

func shapesOf(t reflect.Type) *shapes {
	s := &shapes{byType: map[reflect.Type]*shape{}}
	s.root = s.of(t)
	return s
}

// check reports what in the types makes every document fail.
func (s *shapes) check(opts json.Options) error {
	if s.invalid != nil {
		return s.invalid
	}
	for _, t := range s.structs {
		if err := json.Unmarshal([]byte("{}"), reflect.New(t).Interface(), opts); err != nil {
			return err
		}
	}
	return nil
}

func (s *shapes) of(t reflect.Type) *shape {
	t = withoutPointers(t)
	if known, ok := s.byType[t]; ok {
		return known
	}
	switch {
	case t == reflect.TypeFor[encoding.Number]():
		s.hasNumber = true
		return nil
	case t.Kind() == reflect.Interface:
		isAny := t.NumMethod() == 0
		s.hasAny = s.hasAny || isAny
		s.hasNamedAny = s.hasNamedAny || isAny && t != reflect.TypeFor[any]()
		return nil
	case readsItself(t):
		return nil
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		sh := &shape{kind: listShape}
		s.byType[t] = sh
		sh.elem = s.of(t.Elem())
		return sh
	case reflect.Map:
		sh := &shape{kind: mapShape}
		s.byType[t] = sh
		s.of(t.Key())
		sh.elem = s.of(t.Elem())
		return sh
	case reflect.Struct:
		sh := &shape{kind: structShape, byName: map[string]int{}, byFold: map[string]int{}}
		s.byType[t] = sh
		s.structs = append(s.structs, t)
		s.addFields(sh, t)
		return sh
	}
	return nil
}

func (s *shapes) addFields(sh *shape, t reflect.Type) {
	for _, f := range visibleFields(t) {
		if f.rest {
			sh.hasRest = true
			s.of(f.typ)
			continue
		}
		if f.quoted {
			s.checkQuoted(t, f)
		}
		i := len(sh.fields)
		sh.fields = append(sh.fields, field{f.name, s.of(f.typ)})
		sh.byName[f.name] = i
		fold := string(appendFold(nil, []byte(f.name)))
		if _, ok := sh.byFold[fold]; !ok {
			sh.byFold[fold] = i
		}
	}
}

// checkQuoted looks at a field with the option string, which has a meaning for numbers, text and booleans only.
func (s *shapes) checkQuoted(t reflect.Type, f structField) {
	ft := withoutPointers(f.typ)
	switch ft.Kind() {
	case reflect.String, reflect.Bool:
		s.quotesText = s.quotesText || ft != reflect.TypeFor[encoding.Number]() && !readsItself(ft)
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Array:
		if !readsItself(ft) && s.invalid == nil {
			s.invalid = fmt.Errorf("the field %q of %s has the option string, which is for numbers, text and booleans", f.name, t)
		}
	}
}

// withoutPointers returns what t points to. It stops counting at some depth, because a type may point to itself.
func withoutPointers(t reflect.Type) reflect.Type {
	for i := 0; i < 16 && t.Kind() == reflect.Pointer; i++ {
		t = t.Elem()
	}
	return t
}

// readsItself reports whether t has methods that read its JSON.
func readsItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.UnmarshalerFrom]()) ||
		p.Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		p.Implements(reflect.TypeFor[stdencoding.TextUnmarshaler]())
}

// structField is a field of a struct, or of a struct embedded in it, that a member of an object is decoded into.
type structField struct {
	name   string
	typ    reflect.Type
	depth  int
	tagged bool
	quoted bool // the option string
	rest   bool // an embedded map or raw value that takes the members of no field
}

// visibleFields lists the fields of t as the decoder of the body sees them: of several with one name the shallowest
// counts, then the tagged one, and if that leaves several, none.
func visibleFields(t reflect.Type) []structField {
	type level struct {
		typ     reflect.Type
		depth   int
		descend bool
	}
	var all []structField
	seen := map[reflect.Type]bool{t: true}
	for queue := []level{{t, 0, true}}; len(queue) > 0; queue = queue[1:] {
		l := queue[0]
		for i := range l.typ.NumField() {
			f, embedded, ok := parseField(l.typ.Field(i))
			if !ok {
				continue
			}
			f.depth = l.depth
			if inner := withoutPointers(f.typ); embedded && inner.Kind() == reflect.Struct {
				if l.descend {
					queue = append(queue, level{inner, l.depth + 1, !seen[inner]})
				}
				seen[inner] = true
				continue
			}
			f.rest = embedded
			all = append(all, f)
		}
	}
	return dominant(all)
}

// parseField reads the tag of a field. It reports whether the field's own members take its place, and whether it counts.
func parseField(sf reflect.StructField) (f structField, embedded, ok bool) {
	tag := sf.Tag.Get("json")
	if tag == "-" || !sf.IsExported() && !sf.Anonymous {
		return f, false, false
	}
	name, options, _ := strings.Cut(tag, ",")
	f = structField{name: name, typ: sf.Type, tagged: name != ""}
	if name == "" {
		f.name = sf.Name
	}
	embedded = sf.Anonymous && !f.tagged
	for option := range strings.SplitSeq(options, ",") {
		f.quoted = f.quoted || option == "string"
		embedded = embedded || option == "embed"
	}
	return f, embedded, true
}

func dominant(all []structField) []structField {
	var fields []structField
	for i, f := range all {
		wins := true
		for j, g := range all {
			if i == j || f.name != g.name || f.rest || g.rest {
				continue
			}
			if g.depth < f.depth || g.depth == f.depth && (g.tagged || !f.tagged) {
				wins = false
				break
			}
		}
		if wins {
			fields = append(fields, f)
		}
	}
	return fields
}
