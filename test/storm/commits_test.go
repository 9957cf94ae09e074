//go:build synctests

package storm

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawlhq/pawl"
)

// ledger holds the offsets that the group has stored against who has signed them. What it asks of a commit that the broker
// has stored:
//
//   - it was sent for an assignment that its sender has, under the member id that the assignment was made for;
//   - its signature is of an ownership that the store gave to its sender for that assignment;
//   - no owner's commit comes after one of a later owner;
//   - neither the offset nor the position in the signature goes back, but past records without data, or where an operator
//     has moved the position.
//
// A commit that the network delivers late is the one excuse.
type ledger struct {
	last   map[int32]signed // as the group has it
	newest map[int32]int64  // the latest owner that has committed
	backs  []back
}

// signed is an offset commit for one partition.
type signed struct {
	offset           int64
	next, epoch, seq int64
}

// back is an offset that went back: innocent if there is no record in between.
type back struct {
	topic     pawl.TopicID
	partition int32
	from, to  int64
	what      string
}

func newLedger() ledger { return ledger{last: map[int32]signed{}, newest: map[int32]int64{}} }

func readSignature(offset int64, metadata *string) (s signed, ok bool) {
	if metadata == nil {
		return s, false
	}
	s.offset = offset
	n, err := fmt.Sscanf(*metadata, "pawl/1 next=%d epoch=%d seq=%d", &s.next, &s.epoch, &s.seq)
	return s, n == 3 && err == nil
}

// pendingCommit is a commit on its way.
type pendingCommit struct {
	version int16
	late    bool
	of      map[int32]sent
}

type sent struct {
	signed
	topic pawl.TopicID // that the sender has been assigned
}

// request reads a frame of the protocol.
func request(b []byte) kmsg.Request {
	r := kbin.Reader{Src: b[4:]}
	req := kmsg.RequestForKey(r.Int16())
	if req == nil {
		return nil
	}
	req.SetVersion(r.Int16())
	r.Int32()
	r.NullableString()
	if req.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	if !r.Ok() || req.ReadFrom(r.Src) != nil {
		return nil
	}
	return req
}

// sends looks at what a member sends. It returns what has to be remembered until the answer.
func (m *member) sends(b []byte) *pendingCommit {
	switch req := request(b).(type) {
	case *kmsg.SyncGroupRequest:
		m.renamed(req.MemberID)
	case *kmsg.ConsumerGroupHeartbeatRequest:
		m.renamed(req.MemberID)
	case *kmsg.OffsetCommitRequest:
		return m.commits(req)
	}
	return nil
}

func (m *member) renamed(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.id = id
}

func (m *member) commits(req *kmsg.OffsetCommitRequest) *pendingCommit {
	p := &pendingCommit{version: req.Version, of: map[int32]sent{}}
	for _, t := range req.Topics {
		for _, rp := range t.Partitions {
			s, ok := readSignature(rp.Offset, rp.Metadata)
			if !ok {
				m.w.breach("%s: offset %d of partition %d is committed without Pawl's signature", m.name, rp.Offset, rp.Partition)
				continue
			}
			m.mu.Lock()
			h := m.held[rp.Partition]
			m.mu.Unlock()
			var owner given
			if h != nil {
				owner = m.w.db.ownerOf(signature{h.partition, s.epoch})
			}
			switch {
			case h == nil || !h.ended.IsZero() && time.Now().After(h.ended):
				m.w.breach("%s: offset %d of partition %d is committed for an assignment that has ended", m.name, rp.Offset, rp.Partition)
				continue
			case h.id != req.MemberID:
				m.w.breach("%s: offset %d of partition %d, assigned to %s, is committed as %s", m.name, rp.Offset, rp.Partition, h.id, req.MemberID)
			case owner.to != m.name || owner.at.Before(h.began):
				m.w.breach("%s: offset %d of partition %d is signed by owner %d, which is %q of %s, and assigned at %s", m.name, rp.Offset, rp.Partition,
					s.epoch, owner.to, owner.at.Sub(m.w.began), h.began.Sub(m.w.began))
			}
			m.w.compare(h.partition, rp.Offset, s.epoch, "a commit of "+m.name)
			p.of[rp.Partition] = sent{s, h.partition.TopicID}
		}
	}
	return p
}

// answered looks at what the broker says to a commit.
func (m *member) answered(b []byte, p *pendingCommit) {
	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.SetVersion(p.version)
	r := kbin.Reader{Src: b[8:]}
	if resp.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	if !r.Ok() || resp.ReadFrom(r.Src) != nil {
		m.w.breach("%s: the answer to a commit cannot be read", m.name)
		return
	}
	for _, t := range resp.Topics {
		for _, rp := range t.Partitions {
			if s, is := p.of[rp.Partition]; is && rp.ErrorCode == 0 && s.topic == m.w.topicID() {
				m.stored(rp.Partition, s, p.late)
			}
		}
	}
}

// stored follows a commit that the broker has stored.
func (m *member) stored(partition int32, s sent, late bool) {
	w := m.w
	moved := w.db.movedBy(pawl.Partition{Topic: topic, TopicID: s.topic, Index: partition})
	w.mu.Lock()
	was, had := w.ledger.last[partition]
	newest := w.ledger.newest[partition]
	w.ledger.last[partition] = s.signed
	w.ledger.newest[partition] = max(newest, s.epoch)
	w.fired[sawStored]++
	byOperator := was.epoch < moved && moved <= s.epoch
	if s.offset < was.offset {
		w.fired[sawRewound]++
		if !late && !byOperator {
			w.ledger.backs = append(w.ledger.backs, back{s.topic, partition, was.offset, s.offset, m.name})
		}
	}
	w.mu.Unlock()
	switch {
	case late || !had:
	case s.epoch < newest:
		w.breach("partition %d: %s, owner %d, has committed %d over a commit of owner %d", partition, m.name, s.epoch, s.offset, newest)
	case byOperator:
	case s.next < was.next || s.seq < was.seq:
		w.breach("partition %d: %s has committed after position %d (seq %d), and the group knew of %d (seq %d)", partition, m.name, s.next, s.seq, was.next, was.seq)
	}
}

// ownerOf is the member that the store gave an ownership to.
func (db *database) ownerOf(s signature) given {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.acquired[s]
}

// movedBy is the owner that has last carried out an operator's decision.
func (db *database) movedBy(p pawl.Partition) int64 {
	db.mu.Lock()
	defer db.mu.Unlock()
	if r := db.rows[p]; r != nil {
		return r.movedEpoch
	}
	return 0
}

// refusedBefore reports whether an owner had been told, before this moment, that it is one no longer.
func (db *database) refusedBefore(s signature) bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	at := db.refused[s]
	return !at.IsZero() && time.Now().After(at)
}
