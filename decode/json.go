package decode

import (
	"reflect"

	"github.com/go-json-experiment/json"

	"github.com/pawlhq/pawl"
)

// JSONDecoder decodes JSON documents into T. It is safe for use by several goroutines. [JSON] makes one.
type JSONDecoder[T any] struct {
	identity func(pawl.Meta, T) pawl.Identity
	settings settings
	root     *shape
	body     json.Options
	by       func(T) any
}

// JSON returns a decoder of JSON documents (RFC 8259) whose identity is found by identity.
//
// T follows the tags and methods of encoding/json: names, string, embedded structs, UnmarshalJSON, UnmarshalText,
// time.Time as RFC 3339, time.Duration as nanoseconds, []byte as base64. It is stricter where encoding/json guesses:
//
//   - Numbers are exact. A number in an any, at any depth, becomes an encoding/json.Number; one that does not fit its
//     field (too large, or with a fraction or an exponent in an integer) is refused, and so is an exponent beyond
//     ±999,999,999.
//   - A name that differs from a field's name in nothing but case is refused, and so is the same name twice in an object.
//     The option case:ignore of a tag does not soften this.
//   - An array of another length than its Go array, a time that is not RFC 3339 to the letter, broken UTF-8, half a
//     surrogate pair, a value that ends early or goes on after its document: refused.
//   - A tombstone (no value) and an empty value are refused: they hold no document.
//
// What a type's own UnmarshalJSON does with its part of the document is its own affair: only syntax, text, depth and
// doubled names are checked there.
//
// A T with a struct that can never be decoded makes JSON panic: two fields with one name, a malformed tag (a comma with
// nothing after it is one), no exported field, an embedded type that is no struct and has no name. That is a mistake in
// the program, and quarantining every record would hide it.
func JSON[T any](identity func(m pawl.Meta, body T) pawl.Identity, opts ...Option) *JSONDecoder[T] {
	if identity == nil {
		panic("decode: JSON needs a function that finds the identity")
	}
	d := &JSONDecoder[T]{
		identity: identity,
		settings: settings{maxBytes: DefaultMaxBytes, maxDepth: DefaultMaxDepth, envelope: map[string]bool{}},
	}
	for _, o := range opts {
		o(&d.settings)
	}
	shapes := shapesOf(reflect.TypeFor[T]())
	d.root, d.body = shapes.root, bodyOptions(shapes)
	if err := shapes.check(d.body); err != nil {
		panic("decode: JSON cannot decode " + reflect.TypeFor[T]().String() + ": " + err.Error())
	}
	return d
}

// FingerprintBy returns a decoder like d whose fingerprints are of what content returns, as encoding/json would write
// it, instead of the document. EnvelopeFields then have no effect.
//
// The default is the whole document, also the parts that T does not keep, and for a reason: two records with one key
// that differ only in a field T does not know are a conflict, and a fingerprint of T would call them duplicates and drop
// one. Use FingerprintBy only where producers add something to the same event that cannot be named by EnvelopeFields.
// Changing it later makes conflicts of what would have been duplicates of records that were decided before.
func (d *JSONDecoder[T]) FingerprintBy(content func(body T) any) *JSONDecoder[T] {
	c := *d
	c.by = content
	return &c
}

// Decode implements [pawl.Decoder]. The body holds no part of value. Errors about the document are of type *[Error].
func (d *JSONDecoder[T]) Decode(m pawl.Meta, value []byte) (pawl.Decoded[T], error) {
	fingerprint, refused := scan(value, &d.settings, d.root)
	if refused != nil {
		return pawl.Decoded[T]{}, refused
	}
	body := new(T)
	if err := json.Unmarshal(value, body, d.body); err != nil {
		return pawl.Decoded[T]{}, bodyError(err)
	}
	if d.by != nil {
		var err error
		if fingerprint, err = fingerprintOf(d.by(*body)); err != nil {
			return pawl.Decoded[T]{}, err
		}
	}
	return pawl.Decoded[T]{Identity: d.identity(m, *body), Body: *body, Fingerprint: fingerprint}, nil
}
