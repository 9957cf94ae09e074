package decode

import (
	"crypto/sha256"

	"github.com/pawlhq/pawl"
)

// Bytes returns a decoder that leaves the value as it is. Its fingerprint is of the bytes, so two spellings of one
// document differ. An error of identity is poison: the record is quarantined.
//
// The body is not copied: it is the record's own memory, valid only until the handler returns, and must not be changed.
// A tombstone reaches identity as a nil value; its fingerprint is not that of an empty one.
func Bytes(identity func(m pawl.Meta, value []byte) (pawl.Identity, error)) pawl.Decoder[[]byte] {
	if identity == nil {
		panic("decode: Bytes needs a function that finds the identity")
	}
	return bytesDecoder(identity)
}

type bytesDecoder func(pawl.Meta, []byte) (pawl.Identity, error)

func (identity bytesDecoder) Decode(m pawl.Meta, value []byte) (pawl.Decoded[[]byte], error) {
	id, err := identity(m, value)
	if err != nil {
		return pawl.Decoded[[]byte]{}, err
	}
	d := pawl.Decoded[[]byte]{Identity: id, Body: value}
	kind := [1]byte{'v'}
	if value == nil {
		kind[0] = 't'
	}
	h := sha256.New()
	h.Write(kind[:])
	h.Write(value)
	var sum [sha256.Size]byte
	copy(d.Fingerprint[:], h.Sum(sum[:0]))
	return d, nil
}
