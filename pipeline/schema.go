package pipeline

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/secret"
)

//go:generate go test -run TestTheCommittedSchemaIsThatOfTheTypes -update .

//go:embed schema.json
var schemaJSON []byte

// Schema is the JSON Schema (2020-12) of a file of pipelines, for editors.
func Schema() []byte { return bytes.Clone(schemaJSON) }

// makeSchema makes the schema from the types that files are read into.
func makeSchema() []byte {
	s := object(File{})
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "Pawl pipelines"
	defs := map[string]any{}
	for _, t := range []any{Pipeline{}, Column{}} {
		defs[defName(t)] = object(t)
	}
	s["$defs"] = defs
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err) // it is made of maps, texts and numbers
	}
	return append(out, '\n')
}

func defName(v any) string { return strings.ToLower(reflect.TypeOf(v).Name()) }

func refer(v any) map[string]any { return map[string]any{"$ref": "#/$defs/" + defName(v)} }

// object is the schema of a struct.
func object(v any) map[string]any {
	t := reflect.TypeOf(v)
	props, required := map[string]any{}, []any{}
	for _, f := range fieldsOf(t) {
		props[f.key] = property(f)
		if f.need {
			required = append(required, f.key)
		}
	}
	s := map[string]any{"type": "object", "properties": props, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func property(f field) map[string]any {
	s := typeSchema(f.typ, f.enum)
	if f.doc != "" {
		s["description"] = f.doc
	}
	return s
}

func typeSchema(t reflect.Type, enum []string) map[string]any {
	if s, ok := reflect.New(t).Interface().(binds); ok {
		return s.schema()
	}
	if t == reflect.TypeFor[secret.Ref]() {
		return map[string]any{"type": "string"}
	}
	switch t.Kind() {
	case reflect.String:
		if enum != nil {
			return map[string]any{"anyOf": []any{map[string]any{"enum": anys(enum)},
				map[string]any{"type": "string", "pattern": `^\$\{`}}}
		}
		return map[string]any{"type": "string", "minLength": 1}
	case reflect.Int:
		if len(enum) == 1 {
			n, _ := strconv.Atoi(enum[0])
			return map[string]any{"const": n}
		}
		return map[string]any{"anyOf": []any{map[string]any{"type": "integer", "minimum": 1},
			map[string]any{"type": "string", "pattern": `^\$\{`}}}
	case reflect.Bool:
		return map[string]any{"anyOf": []any{map[string]any{"type": "boolean"},
			map[string]any{"type": "string", "pattern": `^\$\{`}}}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": typeSchema(t.Elem(), enum)}
	case reflect.Pointer:
		return typeSchema(t.Elem(), enum)
	case reflect.Struct:
		s := object(reflect.New(t).Elem().Interface())
		s["type"] = []any{"object", "null"}
		return s
	}
	panic("pipeline: a field of type " + t.String())
}
