package decode

import (
	encoding "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	v1 "github.com/go-json-experiment/json/v1"

	"github.com/pawlhq/pawl"
)

// bodyOptions keeps the representations of encoding/json where version 2 has others for the same tags and types, and
// version 2's refusals everywhere else.
func bodyOptions(s *shapes) json.Options {
	opts := []json.Options{
		json.DefaultOptionsV2(),
		v1.FormatDurationAsNano(true),
		v1.FormatByteArrayAsArray(true),
		v1.FormatBytesWithLegacySemantics(true),
		v1.ParseBytesWithLooseRFC4648(true),
		v1.CallMethodsWithLegacySemantics(true),
		// Only where it is needed: it also reads quoted numbers by Go's syntax instead of JSON's.
		v1.StringifyWithLegacySemantics(s.quotesText),
	}
	// Each function given here costs a look-up per value, so types that need none get none.
	switch {
	case s.hasNamedAny:
		opts = append(opts, json.WithUnmarshalers(json.JoinUnmarshalers(exactNumbers, exactNumbersNamed)))
	case s.hasNumber || s.hasAny:
		opts = append(opts, json.WithUnmarshalers(exactNumbers))
	}
	return json.JoinOptions(opts...)
}

// exactNumbers keeps numbers as they are spelt where their Go type does not say what they are.
var exactNumbers = json.JoinUnmarshalers(
	json.UnmarshalFromFunc(unmarshalNumber),
	json.UnmarshalFromFunc(func(dec *jsontext.Decoder, v *any) (err error) {
		*v, err = readAny(dec)
		return err
	}),
)

// exactNumbersNamed does the same for interface types without methods that have a name. It is called for every value.
var exactNumbersNamed = json.UnmarshalFromFunc(func(dec *jsontext.Decoder, v any) error {
	e := reflect.ValueOf(v).Elem()
	if e.Kind() != reflect.Interface || e.NumMethod() != 0 {
		return errors.ErrUnsupported
	}
	x, err := readAny(dec)
	if err == nil && x != nil {
		e.Set(reflect.ValueOf(x))
	}
	return err
})

// unmarshalNumber does what encoding/json does with its own type: it takes a number, or a string that holds one.
func unmarshalNumber(dec *jsontext.Decoder, n *encoding.Number) error {
	v, err := dec.ReadValue()
	if err != nil {
		return err
	}
	switch v.Kind() {
	case jsontext.KindNull:
		return nil
	case jsontext.KindNumber:
		*n = encoding.Number(v)
		return nil
	case jsontext.KindString:
		text, err := jsontext.AppendUnquote(nil, v)
		if err != nil {
			return err
		}
		if inner := jsontext.Value(text); inner.Kind() == jsontext.KindNumber && inner.IsValid() && len(text) == len(trim(text)) {
			*n = encoding.Number(text)
			return nil
		}
	}
	return &json.SemanticError{JSONKind: v.Kind(), GoType: reflect.TypeFor[encoding.Number](), Err: strconv.ErrSyntax}
}

// trim cuts the white space that a JSON value may have around it and a number in a string may not.
func trim(b []byte) []byte {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isSpace(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

// readAny makes of the next value what encoding/json makes of it after UseNumber. The scanner has bounded its depth.
func readAny(dec *jsontext.Decoder) (any, error) {
	tok, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch tok.Kind() {
	case jsontext.KindBeginObject:
		object := map[string]any{}
		for dec.PeekKind() != jsontext.KindEndObject {
			name, err := dec.ReadToken()
			if err != nil {
				return nil, err
			}
			key := name.String() // before the next read, which may overwrite it
			if object[key], err = readAny(dec); err != nil {
				return nil, err
			}
		}
		_, err := dec.ReadToken()
		return object, err
	case jsontext.KindBeginArray:
		array := []any{}
		for dec.PeekKind() != jsontext.KindEndArray {
			v, err := readAny(dec)
			if err != nil {
				return nil, err
			}
			array = append(array, v)
		}
		_, err := dec.ReadToken()
		return array, err
	case jsontext.KindNumber:
		return encoding.Number(tok.String()), nil
	case jsontext.KindString:
		return tok.String(), nil
	case jsontext.KindTrue, jsontext.KindFalse:
		return tok.Bool(), nil
	}
	return nil, nil
}

// bodyError says in this package's words what was wrong with a document that is well-formed and does not fit its type.
func bodyError(err error) error {
	e := &Error{what: "the document", why: err.Error(), err: err}
	if s, ok := errors.AsType[*json.SemanticError](err); ok {
		e.Offset, e.Pointer = s.ByteOffset, cut(string(s.JSONPointer), maxPointer)
		e.what = kindName(s.JSONKind)
		if s.JSONKind == jsontext.KindNumber && len(s.JSONValue) > 0 {
			e.what += " " + cut([]byte(s.JSONValue), maxToken)
		}
		e.why, e.err = "it does not fit", s.Err
		if s.GoType != nil {
			e.why += " " + cut(s.GoType.String(), 2*maxToken)
		}
		if s.Err != nil {
			e.why += ": " + cut(printable(s.Err.Error()), maxPointer)
		}
	}
	return e
}

func kindName(k jsontext.Kind) string {
	switch k {
	case jsontext.KindNull:
		return "null"
	case jsontext.KindTrue, jsontext.KindFalse:
		return "a boolean"
	case jsontext.KindString:
		return "a string"
	case jsontext.KindNumber:
		return "the number"
	case jsontext.KindBeginObject, jsontext.KindEndObject:
		return "an object"
	case jsontext.KindBeginArray, jsontext.KindEndArray:
		return "an array"
	}
	return "the value"
}

// contentOptions writes as encoding/json does, but refuses broken text instead of mending it: two contents must not
// become one.
var contentOptions = json.JoinOptions(
	v1.DefaultOptionsV1(),
	v1.ReportErrorsWithLegacySemantics(false),
	jsontext.AllowInvalidUTF8(false),
	jsontext.AllowDuplicateNames(false),
	json.WithMarshalers(json.MarshalToFunc(func(enc *jsontext.Encoder, n encoding.Number) error {
		if n == "" {
			n = "0" // as encoding/json
		}
		return enc.WriteValue(jsontext.Value(n))
	})),
)

// fingerprintOf returns the fingerprint of a document that says what content holds.
func fingerprintOf(content any) (pawl.Fingerprint, error) {
	doc, err := json.Marshal(content, contentOptions)
	if err != nil {
		return pawl.Fingerprint{}, fmt.Errorf("fingerprint: %w", err)
	}
	f, refused := scan(doc, &settings{maxBytes: maxMaxBytes, maxDepth: maxMaxDepth}, nil)
	if refused != nil {
		return f, fmt.Errorf("fingerprint: %w", refused)
	}
	return f, nil
}
