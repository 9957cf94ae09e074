package pawl

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
)

// AuditVerdict is what VerifyAudit has found in the audit of a consumer.
type AuditVerdict struct {
	Consumer string
	Chains   []ChainVerdict // that of the consumer itself first, then by operation
	Seals    []AuditSeal    // oldest first, without their heads
	Faults   []AuditFault   // of the seals
}

// ChainVerdict is what was found in one chain.
type ChainVerdict struct {
	Operation int64 // 0: the consumer's own
	Acts      int64 // rows in the chain
	Old       int64 // rows of the time before there were chains: nothing can be said about them
	Erased    int64 // of Acts; their place is proven, and not what they said
	Sealed    int64 // of Acts, covered by seals
	First     time.Time
	Last      time.Time
	Faults    []AuditFault
}

// AuditFault is one thing that Pawl has not done.
type AuditFault struct {
	Row    int64 // the id of the row; 0: it is about no single row
	Number int64 // its place in the chain
	What   string
}

// OK reports whether everything is as Pawl has written it.
func (v *AuditVerdict) OK() bool {
	return len(v.Faults) == 0 && !slices.ContainsFunc(v.Chains, func(c ChainVerdict) bool { return len(c.Faults) > 0 })
}

// Seal finds the seal with this Chain, in hex; nil: there is none.
func (v *AuditVerdict) Seal(chain string) *AuditSeal {
	for i := range v.Seals {
		if hex.EncodeToString(v.Seals[i].Chain) == strings.ToLower(chain) {
			return &v.Seals[i]
		}
	}
	return nil
}

// VerifyAudit computes every hash of a consumer's audit anew. Acts that are added meanwhile do not disturb it.
func VerifyAudit(ctx context.Context, a Admin, consumer string) (*AuditVerdict, error) {
	v := &verifier{sealed: map[int64][]sealedHead{}, verdict: AuditVerdict{Consumer: consumer}}
	err := a.AuditTrail(ctx, consumer, v.seal, func(l *AuditLink) error {
		v.link(l)
		return nil
	})
	if err != nil {
		return nil, err
	}
	v.end()
	v.gone()
	return &v.verdict, nil
}

type verifier struct {
	verdict AuditVerdict
	sealed  map[int64][]sealedHead // by operation, shortest first

	begun  bool
	chain  ChainVerdict // the one that is being walked over
	kept   AuditLink    // what is kept of it elsewhere
	seals  []sealedHead // of it, at rows that are still to come
	number int64        // of the last row
	head   []byte       // Chain of the last row
}

type sealedHead struct {
	seal   int64
	length int64
	head   []byte
}

func (v *verifier) seal(s *AuditSeal) {
	bad := func(format string, args ...any) {
		v.verdict.Faults = append(v.verdict.Faults, AuditFault{What: fmt.Sprintf("seal %d: ", s.Number) + fmt.Sprintf(format, args...)})
	}
	var before AuditSeal
	if n := len(v.verdict.Seals); n > 0 {
		before = v.verdict.Seals[n-1]
	}
	if s.Number != before.Number+1 {
		bad("it follows seal %d: those between are missing", before.Number)
	}
	for _, h := range s.Heads {
		v.sealed[h.Operation] = append(v.sealed[h.Operation], sealedHead{s.Number, h.Length, h.Head})
	}
	if !bytes.Equal(s.Sum(), s.Hash) {
		bad("it was changed: what it says has the hash %s, and it has %s", short(s.Sum()), short(s.Hash))
	}
	if !bytes.Equal(ChainSum(before.Chain, s.Hash), s.Chain) {
		bad("it does not follow the seal before: one of them was written anew")
	}
	kept := *s
	kept.Heads = nil
	v.verdict.Seals = append(v.verdict.Seals, kept)
}

// link takes the next line of the trail.
func (v *verifier) link(l *AuditLink) {
	if !v.begun || v.chain.Operation != l.Operation {
		v.end()
		v.begun, v.chain, v.kept, v.number, v.head = true, ChainVerdict{Operation: l.Operation}, *l, 0, nil
		v.seals = v.sealed[l.Operation]
	}
	r := l.Row
	if r == nil {
		return
	}
	if v.chain.First.IsZero() {
		v.chain.First = r.At
	}
	v.chain.Last = r.At
	if r.Number == 0 && r.Digest == nil && r.Chain == nil && r.Old {
		v.chain.Old++
		return
	}
	v.row(r)
}

func (v *verifier) row(r *AuditRow) {
	bad := func(format string, args ...any) {
		v.chain.Faults = append(v.chain.Faults, AuditFault{r.ID, r.Number, fmt.Sprintf(format, args...)})
	}
	if r.Number <= 0 || r.Digest == nil || r.Chain == nil {
		bad("Pawl has not written it, or its hashes were taken away: it is in no chain")
		return
	}
	v.chain.Acts++
	switch {
	case r.Number <= v.number:
		bad("there is another row in its place")
	case r.Number > v.number+1:
		bad("missing before it: %s", places(v.number+1, r.Number-1))
	}
	switch {
	case r.Erased && (r.By != "" || r.Why != "" || r.Detail != "" || r.Salt != nil):
		bad("it is marked as erased, and has content")
	case r.Erased:
		v.chain.Erased++
	case !bytes.Equal(r.Sum(), r.Digest):
		bad("it was changed: what it says has the digest %s, and it has %s", short(r.Sum()), short(r.Digest))
	}
	if !bytes.Equal(ChainSum(v.head, r.Digest), r.Chain) {
		bad("it does not follow the row before: one of them was changed, moved, taken away or put in")
	}
	for len(v.seals) > 0 && v.seals[0].length <= r.Number {
		if s := v.seals[0]; s.length == r.Number && !bytes.Equal(s.head, r.Chain) {
			bad("seal %d has another hash of it: rows up to here were written anew", s.seal)
		}
		v.seals = v.seals[1:]
	}
	v.number, v.head = max(v.number, r.Number), r.Chain
}

// end closes the chain that was walked over.
func (v *verifier) end() {
	if !v.begun {
		return
	}
	bad := func(format string, args ...any) {
		v.chain.Faults = append(v.chain.Faults, AuditFault{What: fmt.Sprintf(format, args...)})
	}
	keeper := "the consumer"
	if v.chain.Operation != 0 {
		keeper = "the operation"
	}
	length, sealed := v.kept.Length, v.sealed[v.chain.Operation]
	delete(v.sealed, v.chain.Operation)
	switch {
	case length < 0:
		bad("the consumer has no such operation: it was taken away, or the rows were given another")
	case v.number < length:
		bad("missing at its end: %s", places(v.number+1, length))
	case v.number > length:
		bad("%s knows of %d rows: what comes behind them was put in, or what is known was changed", keeper, length)
	case !bytes.Equal(v.head, v.kept.Head):
		bad("%s has another hash of its last row: the chain was written anew, or what is kept of it was changed", keeper)
	}
	if n := len(sealed); n > 0 {
		v.chain.Sealed = min(sealed[n-1].length, v.chain.Acts)
		if sealed[n-1].length > max(v.number, length) {
			bad("missing at its end, and covered by seal %d: %s", sealed[n-1].seal, places(max(v.number, length)+1, sealed[n-1].length))
		}
	}
	if v.chain.Acts > 0 || v.chain.Old > 0 || len(v.chain.Faults) > 0 {
		v.verdict.Chains = append(v.verdict.Chains, v.chain)
	}
	v.begun = false
}

// gone is what the seals know of, and the store does not have.
func (v *verifier) gone() {
	for operation, of := range v.sealed {
		last := of[len(of)-1]
		v.verdict.Chains = append(v.verdict.Chains, ChainVerdict{Operation: operation, Faults: []AuditFault{{
			What: fmt.Sprintf("it is gone, with all its rows: seal %d covers %d of them", last.seal, last.length),
		}}})
	}
	slices.SortStableFunc(v.verdict.Chains, func(a, b ChainVerdict) int { return cmp.Compare(a.Operation, b.Operation) })
}

// places names rows of a chain.
func places(first, last int64) string {
	if first == last {
		return fmt.Sprintf("row %d", first)
	}
	return fmt.Sprintf("rows %d to %d", first, last)
}

// short is enough of a hash to tell two apart.
func short(hash []byte) string { return hex.EncodeToString(hash[:min(len(hash), 6)]) }
