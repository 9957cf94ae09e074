// Package decode turns the bytes of a record into a body, an identity and a fingerprint.
//
// Two records collapse into one effect when they have one key, so a decoder must never make two different things look
// the same. Common JSON decoders do: 9007199254740993 becomes 9007199254740992 on its way through a float64, "ID" is
// taken for "id", of two members with one name the last wins, and broken text becomes U+FFFD. [JSON] refuses each of
// these or keeps it exact. What it refuses is poison: the record is quarantined with its bytes, and the error says what
// and where.
//
// # Fingerprints
//
// A fingerprint is a SHA-256, cut to 16 bytes, over the content of the document: members in the order of their names,
// strings by value, numbers by exact value, no white space. Two documents have one fingerprint if they say the same,
// however they are spelt. Stores keep fingerprints, so the form that is hashed is frozen: a test holds its values.
//
// # Hostile input
//
// A document is read once, without building anything, and its size, depth, text, names and numbers are checked; only
// then is a body made of it. Time and memory are bounded by the size of the value, never by what a number or a nesting
// claims to be. Decoders never panic because of bytes; a panic of a caller's function (an identity, an UnmarshalJSON)
// passes through.
package decode
