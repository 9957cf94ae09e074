package rehearsal

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/pipeline"
)

// names gives ids and streams of a template the names of its turn: the same everywhere in it, others in every other turn. What looks
// like a UUID, a ULID or a number goes on looking like one.
type names struct {
	seed uint64
	turn int
}

var (
	uuidText = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)
	ulidText = regexp.MustCompile(`^[0-7][0-9A-HJKMNP-TV-Z]{25}$`)
	digits   = regexp.MustCompile(`^[0-9]+$`)
)

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

func (n names) of(old string, number bool) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/%d/%s", n.seed, n.turn, old))
	switch {
	case number && (old[0] == '-' || old == "0" || len(old) > 7):
		return fmt.Sprint(1 + binary.BigEndian.Uint64(sum[:])>>12) // below 2^53, which every reader of JSON takes
	case number, digits.MatchString(old):
		return fmt.Sprintf("%s%03d%05d", old, n.seed%1000, n.turn)
	case uuidText.MatchString(old):
		hex := []byte(fmt.Sprintf("%x", sum[:18]))
		for _, at := range []int{8, 13, 18, 23} {
			hex[at] = '-'
		}
		hex[14], hex[19] = old[14], old[19] // version and variant
		if strings.ContainsAny(old, "ABCDEF") {
			return strings.ToUpper(string(hex))
		}
		return string(hex)
	case ulidText.MatchString(old):
		out := []byte(old[:10]) // its time
		for _, b := range sum[:16] {
			out = append(out, crockford[b%32])
		}
		return string(out)
	}
	return fmt.Sprintf("%s-%d-%05d", old, n.seed, n.turn)
}

// rename makes of a record of a template that of a turn. A record's key that is one of the names goes with it.
func (n names) rename(r pawl.Record, places []pipeline.Place) pawl.Record {
	given, made := map[string]string{}, map[string]bool{}
	for _, p := range places {
		r = p.Replace(r, func(old string, number bool) string {
			if made[old] || old == "" { // two pipelines mean the same place
				return old
			}
			now := n.of(old, number)
			given[old], made[now] = now, true
			return now
		})
	}
	if now, ok := given[string(r.Key)]; ok && r.Key != nil {
		r.Key = []byte(now)
	}
	return r
}
