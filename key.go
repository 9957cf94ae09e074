package pawl

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
)

// KeyForm says how a [KeyID] was made from a Key, and so how to read it back.
type KeyForm uint8

const (
	// KeyHashed ids are a SHA-256 of the Key, cut to 16 bytes in UUIDv8 form. The Key is stored beside them.
	KeyHashed KeyForm = 0
	// KeyUUID ids are the Key itself: a UUID in its canonical form (lower case, hyphens).
	KeyUUID KeyForm = 1
	// KeyULID ids are the Key itself: a ULID in its canonical form (upper case).
	KeyULID KeyForm = 2
)

// KeyID is a Key as stores index it. Time-ordered keys (UUIDv7, ULID) keep their order, which makes the index cheap to
// write; the form is part of the id, so that a UUID, a ULID and a hash of the same bytes never meet.
type KeyID struct {
	Form KeyForm
	ID   [16]byte
}

// NewKeyID returns the id of key. Distinct keys have distinct ids (for hashed keys: but for a collision of 122 bits of
// SHA-256, which a differing fingerprint would then report as a conflict).
func NewKeyID(key string) KeyID {
	if id, ok := parseUUID(key); ok {
		return KeyID{KeyUUID, id}
	}
	if id, ok := parseULID(key); ok {
		return KeyID{KeyULID, id}
	}
	sum := sha256.Sum256([]byte(key))
	k := KeyID{Form: KeyHashed}
	copy(k.ID[:], sum[:16])
	k.ID[6] = k.ID[6]&0x0f | 0x80
	k.ID[8] = k.ID[8]&0x3f | 0x80
	return k
}

// Key returns the key that k was made from; ok is false for hashed ids, which cannot be read back.
func (k KeyID) Key() (key string, ok bool) {
	switch k.Form {
	case KeyUUID:
		b := make([]byte, 36)
		hex.Encode(b[0:8], k.ID[0:4])
		hex.Encode(b[9:13], k.ID[4:6])
		hex.Encode(b[14:18], k.ID[6:8])
		hex.Encode(b[19:23], k.ID[8:10])
		hex.Encode(b[24:36], k.ID[10:16])
		b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
		return string(b), true
	case KeyULID:
		return formatULID(k.ID), true
	}
	return "", false
}

// parseUUID accepts only the canonical spelling: another spelling of the same UUID is another key.
func parseUUID(s string) (id [16]byte, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, false
	}
	at := 0
	for i := 0; i < 36; i++ {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			continue
		}
		var n byte
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			n = c - '0'
		case c >= 'a' && c <= 'f':
			n = c - 'a' + 10
		default:
			return id, false
		}
		if at%2 == 0 {
			id[at/2] = n << 4
		} else {
			id[at/2] |= n
		}
		at++
	}
	return id, true
}

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

var crockfordValue = func() (v [256]byte) {
	for i := range v {
		v[i] = 0xff
	}
	for i := range len(crockford) {
		v[crockford[i]] = byte(i)
	}
	return v
}()

// parseULID reads 26 characters of 5 bits; the first holds only 3, so that 130 bits become 128.
func parseULID(s string) (id [16]byte, ok bool) {
	if len(s) != 26 || s[0] > '7' {
		return id, false
	}
	var acc uint32
	bits, at := -2, 0 // the two leading bits of the first character are not part of the id
	for i := 0; i < 26; i++ {
		v := crockfordValue[s[i]]
		if v == 0xff {
			return id, false
		}
		acc = acc<<5 | uint32(v)
		if bits += 5; bits >= 8 {
			bits -= 8
			id[at] = byte(acc >> bits)
			at++
		}
	}
	return id, true
}

func formatULID(id [16]byte) string {
	b := make([]byte, 0, 26)
	var acc uint32
	bits := 2
	for _, c := range id {
		acc = acc<<8 | uint32(c)
		for bits += 8; bits >= 5; {
			bits -= 5
			b = append(b, crockford[acc>>bits&31])
		}
	}
	return string(b)
}

// Compare orders key ids.
func (k KeyID) Compare(other KeyID) int {
	return cmp.Or(cmp.Compare(k.Form, other.Form), bytes.Compare(k.ID[:], other.ID[:]))
}
