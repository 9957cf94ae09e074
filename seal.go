package pawl

import (
	"context"
	"encoding/hex"
	"time"
)

// AuditSeal is over the heads of a consumer's chains that have grown since the seal before, and over that seal. Who keeps the
// Chain of one seal elsewhere can tell later whether anything that was sealed by then has been rewritten.
type AuditSeal struct {
	ID       int64
	Consumer int64 // its number in the store
	Number   int64 // from 1
	At       time.Time
	Acts     int64 // covered by this seal and those before it
	Heads    []AuditHead
	Hash     []byte // of all the above
	Chain    []byte // of the seal before, and Hash
}

// AuditHead is how far a chain was when it was sealed.
type AuditHead struct {
	Operation int64 // 0: the consumer's own chain
	Length    int64
	Head      []byte
	Sealed    int64 // what earlier seals cover; not part of the hash
}

// NextSeal is the seal that follows; before is the zero seal where there is none. Heads are by operation. Stores call it.
func NextSeal(before *AuditSeal, consumer int64, heads []AuditHead, at time.Time) *AuditSeal {
	s := &AuditSeal{Consumer: consumer, Number: before.Number + 1, At: at, Acts: before.Acts, Heads: heads}
	for _, h := range heads {
		s.Acts += h.Length - h.Sealed
	}
	s.Hash = s.Sum()
	s.Chain = ChainSum(before.Chain, s.Hash)
	return s
}

// Sum is the hash that the seal should have.
func (s *AuditSeal) Sum() []byte {
	e := encoding{1}
	e.number(s.Number)
	e.number(s.Consumer)
	e.number(s.At.UnixMicro())
	e.number(s.Acts)
	e.number(int64(len(s.Heads)))
	for _, h := range s.Heads {
		e.number(h.Operation)
		e.number(h.Length)
		e.bytes(h.Head)
	}
	return e.sum()
}

// firstSeal is how long after the start the first seal is made: a process that never lives for Config.SealInterval makes one too.
const firstSeal = time.Minute

// sealLoop seals by time what operators did. Members do so side by side: a seal is over what has grown since the last one, whoever
// made that, and where nothing has, none is made.
func (r *Runner[Tx]) sealLoop(ctx context.Context) {
	if r.cfg.SealInterval < 0 {
		return
	}
	next := time.NewTimer(min(firstSeal, r.cfg.SealInterval))
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		next.Reset(r.cfg.SealInterval)
		at := r.cfg.Now().Truncate(time.Microsecond)
		switch seal, err := r.store.Admin().SealAudit(ctx, r.cfg.Consumer, at); {
		case err != nil && ctx.Err() == nil:
			r.cfg.Logger.Warn("audit not sealed: tried again", "error", err)
		case err == nil && seal.Number > 0 && seal.At.Equal(at): // else it is an earlier one
			r.cfg.Logger.Info("audit sealed", "seal", seal.Number, "acts", seal.Acts, "hash", hex.EncodeToString(seal.Chain))
		}
	}
}
