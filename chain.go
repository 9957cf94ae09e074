package pawl

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// AuditRow is one act as its chain has it. Each operation has a chain of its own; acts without one are in the chain of their
// consumer. Digest is over what the row says; Chain is over the Chain of the row before, and Digest. So what a row says can
// be erased, and the chain stays true.
type AuditRow struct {
	ID        int64
	Consumer  int64 // its number in the store
	Operation int64 // 0: none
	Item      int64 // 0: it is of no record
	Number    int64 // its place in its chain, from 1; 0: it is in none
	What      string
	By        string
	Why       string
	At        time.Time
	Detail    string // JSON, as it was written; "": none
	Salt      []byte // random, and erased with the rest: a name and a ticket could be found out from their hash by trial
	Digest    []byte
	Chain     []byte
	Erased    bool
	Old       bool // of the time before there were chains
}

// Sum is the digest that the row should have. PostgreSQL has it as pawl_audit_digest, and storetest compares the two.
func (r *AuditRow) Sum() []byte {
	e := encoding{1}
	e.number(r.Number)
	e.number(r.Consumer)
	e.numberOrNone(r.Operation)
	e.numberOrNone(r.Item)
	e.bytes([]byte(r.What))
	e.bytes([]byte(r.By))
	e.bytes([]byte(r.Why))
	e.number(r.At.UnixMicro())
	if r.Detail == "" {
		e.none()
	} else {
		e.bytes([]byte(r.Detail))
	}
	e.bytes(r.Salt)
	return e.sum()
}

// ChainSum links a digest to what comes before it; the first has nothing before it.
func ChainSum(before, digest []byte) []byte {
	sum := sha256.Sum256(append(before[:len(before):len(before)], digest...))
	return sum[:]
}

// AuditLink is a row of a chain, beside what is kept of the chain elsewhere: with its operation, or its consumer.
type AuditLink struct {
	Operation int64     // 0: the chain is the consumer's own
	Length    int64     // how many rows the chain has; below 0: nothing is kept of this chain
	Head      []byte    // Chain of the last of them
	Row       *AuditRow // nil: the chain has none
}

// encoding is what is hashed: a version, and then each value behind its length, so that no two contents look the same.
type encoding []byte

func (e *encoding) bytes(b []byte) {
	*e = append(binary.BigEndian.AppendUint32(*e, uint32(len(b))), b...)
}

func (e *encoding) none() { *e = append(*e, 0xff, 0xff, 0xff, 0xff) }

func (e *encoding) number(n int64) { e.bytes(binary.BigEndian.AppendUint64(nil, uint64(n))) }

func (e *encoding) numberOrNone(n int64) {
	if n == 0 {
		e.none()
		return
	}
	e.number(n)
}

func (e *encoding) sum() []byte {
	sum := sha256.Sum256(*e)
	return sum[:]
}
