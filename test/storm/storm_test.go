//go:build synctests

package storm

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawlhq/pawl"
)

// The group protocols, one a seed in turn.
const (
	cooperative      = "cooperative"
	eager            = "eager"
	static           = "static"
	staticEager      = "static eager"
	serverSide       = "KIP-848"
	serverSideStatic = "KIP-848 static"
)

var protocols = []string{cooperative, serverSide, eager, static, cooperative, serverSideStatic, eager, staticEager}

var orders = []pawl.Order{pawl.OrderPartition, pawl.OrderStream, pawl.OrderNone}

// kind is a kind of trouble, or something that must be seen to happen under it.
type kind string

const (
	joined          kind = "member joins"
	left            kind = "member leaves"
	abandoned       kind = "member abandoned"
	frozen          kind = "member frozen past its session"
	kicked          kind = "member kicked"
	twin            kind = "static id started twice"
	handlerSlow     kind = "handler slow"
	handlerDeaf     kind = "handler deaf past the rebalance"
	commitBegunLate kind = "offset commit: begun late"
	commitDelayed   kind = "offset commit: answer delayed"
	commitCutAfter  kind = "offset commit: stored, answer cut off"
	commitCutBefore kind = "offset commit: cut off before"
	commitLate      kind = "offset commit: stored after a later one"
	commitRetriable kind = "offset commit: retriable error"
	commitRefused   kind = "offset commit: refused"
	commitTimedOut  kind = "offset commit: stored, answered as timed out"
	leaderMoved     kind = "leaders move"
	coordinatorMove kind = "coordinators move"
	connsDropped    kind = "connections dropped"
	requestLost     kind = "connection breaks under a request"
	offsetsExpired  kind = "group offsets expired"
	partitionsAdded kind = "partition added"
	logTrimmed      kind = "log truncated at its start, up to the position"

	rewindLate       kind = "rewind delayed"
	storeTransient   kind = "store: transient error"
	storeSlow        kind = "store: slow commit"
	commitAnswerLost kind = "store: commit answer lost, resolved"
	commitNotApplied kind = "store: commit lost, resolved"
	commitUnresolved kind = "store: committed, never resolved"
	lateApply        kind = "store: commit although cancelled"

	txnCommitted kind = "transaction committed"
	txnAborted   kind = "transaction aborted"

	sentCopy     kind = "copy sent"
	sentConflict kind = "conflict sent"
	sentPoison   kind = "poison sent"

	sawFenced     kind = "(seen) owner fenced"
	sawRaced      kind = "(seen) key raced for"
	sawRestarted  kind = "(seen) partition restarted"
	sawRewound    kind = "(seen) committed offset went back"
	sawBrokerHung kind = "(seen) member that the broker had to be rid of"
	sawStored     kind = "(seen) offset commit stored"
)

// optional kinds are enabled by a seed or not; the others are part of every seed.
var optional = []kind{
	abandoned, frozen, kicked, twin, handlerSlow, handlerDeaf, commitBegunLate, commitDelayed, commitCutAfter, commitCutBefore, commitLate, commitRetriable,
	commitRefused, commitTimedOut, leaderMoved, coordinatorMove, connsDropped, requestLost, offsetsExpired, partitionsAdded, logTrimmed,
	rewindLate, storeTransient, storeSlow, commitAnswerLost, commitNotApplied, commitUnresolved, lateApply, txnCommitted,
}

var always = []kind{recordsDeleted, logCut, topicRecreated, offsetReset, answeredToStay, sawStored, joined, left, sentCopy, sentConflict, sentPoison, txnAborted, sawFenced, sawRaced, sawRestarted}

// coincidences take two troubles at once: in few seeds there may be none.
var coincidences = []kind{rewindLate, lateApply}

// total is what fired over all seeds.
type total struct {
	mu      sync.Mutex
	seeds   map[string]int // by protocol
	enabled map[kind]int
	fired   map[kind]int
	events  int
	virtual time.Duration
}

func TestStorm(t *testing.T) {
	n := *seedCount
	switch {
	case n > 0:
	case os.Getenv("PAWL_PROOF") == "long":
		n = 320
	default:
		n = 40 // each protocol meets each wound
	}
	first := *firstSeed
	if *oneSeed > 0 {
		first, n = *oneSeed, 1
	}
	sum := &total{seeds: map[string]int{}, enabled: map[kind]int{}, fired: map[kind]int{}}
	began := time.Now()
	t.Run("seeds", func(t *testing.T) {
		for seed := first; seed < first+n; seed++ {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { run(t, seed, sum) })
			})
		}
	})
	sum.report(t, time.Since(began))
	if n < 32 || t.Failed() {
		return // too few to ask for every kind
	}
	for _, k := range slices.Concat(optional, always) {
		if sum.fired[k] == 0 && (n >= 160 || !slices.Contains(coincidences, k)) {
			t.Errorf("%s: enabled in %d seeds, and did not happen", k, sum.enabled[k])
		}
	}
}

func (s *total) report(t *testing.T, took time.Duration) {
	var b strings.Builder
	fmt.Fprintf(&b, "%d events, %s of fake time in %s\n", s.events, s.virtual.Round(time.Second), took.Round(10*time.Millisecond))
	for _, p := range slices.Compact(slices.Sorted(slices.Values(protocols))) {
		fmt.Fprintf(&b, "%6d seeds  %s\n", s.seeds[p], p)
	}
	var names []string
	for k := range s.fired {
		names = append(names, string(k))
	}
	for _, k := range slices.Sorted(slices.Values(names)) {
		fmt.Fprintf(&b, "%6d times  %s", s.fired[kind(k)], k)
		if n := s.enabled[kind(k)]; n > 0 {
			fmt.Fprintf(&b, " (in %d seeds)", n)
		}
		b.WriteByte('\n')
	}
	t.Log("\n" + b.String())
}

func run(t *testing.T, seed int, sum *total) {
	w := newWorld(t, seed)
	for _, k := range optional {
		w.enabled[k] = w.rng.IntN(2) == 0
	}
	w.enabled[twin] = w.enabled[twin] && w.isStatic()
	w.storm()
	w.verify()

	failed := len(w.breaches) > 0
	if failed || *showLog {
		t.Logf("seed %d, %s, order %d\n%s", seed, w.protocol, w.order, strings.Join(w.log, "\n"))
	}
	for _, s := range w.breaches {
		t.Errorf("seed %d (%s): %s", seed, w.protocol, s)
	}
	if failed {
		t.Logf("again: go test ./test/storm -storm.seed=%d (-storm.log for its log)", seed)
	}
	sum.mu.Lock()
	defer sum.mu.Unlock()
	sum.seeds[w.protocol]++
	sum.virtual += time.Since(w.began)
	sum.events += len(w.db.settled)
	for k, on := range w.enabled {
		if on {
			sum.enabled[k]++
		}
	}
	for k, n := range w.fired {
		sum.fired[k] += n
	}
}

// storm is the script of a seed: trouble for a while, then calm until everything is settled.
func (w *world) storm() {
	defer w.cluster.Close()
	defer w.admin.Close()
	defer func() { w.stream.cl.Close() }() // whichever it is by then
	var background sync.WaitGroup
	defer background.Wait()
	over := make(chan struct{})
	every := func(from, to time.Duration, f func()) {
		background.Go(func() {
			for {
				select {
				case <-over:
					return
				case <-time.After(w.between(from, to)):
					f()
				}
			}
		})
	}

	w.stream.produce(w.stream.cl, 30)
	for slot := range 2 + w.intn(2) {
		w.start(slot, false)
		w.count(joined)
	}
	every(500*time.Millisecond, 500*time.Millisecond+1, w.sample)
	producing := make(chan struct{})
	var produced sync.WaitGroup
	produced.Go(func() {
		for {
			select {
			case <-producing:
				return
			case <-time.After(w.between(100*time.Millisecond, 2*time.Second)):
				w.stream.produce(w.stream.cl, 1+w.intn(12))
			}
		}
	})
	trouble := func(d time.Duration) {
		for end := time.Now().Add(d); time.Now().Before(end) && !w.hasBreach(); {
			time.Sleep(w.between(200*time.Millisecond, 5*time.Second))
			w.trouble(&background, &produced)
		}
	}
	trouble(w.between(60*time.Second, 110*time.Second))
	close(producing)
	if w.intn(2) == 0 { // so that trouble meets the last commits, which no later one covers
		trouble(w.between(5*time.Second, 30*time.Second))
	}
	produced.Wait()

	w.logf("calm")
	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	for _, m := range w.alive() {
		m.link.thaw()
	}
	w.startAbsent()
	if w.enabled[commitLate] {
		// An offset that a late commit has put back is put right by the next commit, which takes a record.
		time.Sleep(10 * time.Second)
		for p := range w.stream.partitions() {
			w.stream.send(w.stream.cl, p)
		}
	}
	w.settle()
	if !w.hasBreach() {
		w.hurt(wounds[w.seed/len(protocols)%len(wounds)])
	}
	close(over)
	background.Wait()
	for _, m := range w.alive() {
		m.end()
	}
	w.sample()
	w.remember()
	time.Sleep(time.Minute) // handlers that were left behind return by then
}

func (w *world) hasBreach() bool {
	w.db.mu.Lock()
	defer w.db.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.breaches = append(w.breaches, w.db.broken...)
	w.db.broken = nil
	return len(w.breaches) > 0
}

// freeSlot is a static id that no member has.
func (w *world) freeSlot() int {
	for slot := 0; ; slot++ {
		if !slices.ContainsFunc(w.alive(), func(m *member) bool { return m.slot == slot }) {
			return slot
		}
	}
}

// startAbsent starts whom it takes to go on. A static member of KIP-848 that has left keeps its partitions until its session
// times out. This broker forgets to time it: whoever has left has to come back.
func (w *world) startAbsent() {
	for len(w.alive()) < 2 || w.protocol == serverSideStatic && w.freeSlot() < w.slots {
		w.start(w.freeSlot(), false)
	}
}

// trouble does one thing to the group. What takes its time goes on in the background.
func (w *world) trouble(background, produced *sync.WaitGroup) {
	for _, m := range w.alive() { // who has ended by itself is started again, as a supervisor would
		select {
		case <-m.done:
			w.forget(m)
			m.ended()
		default:
		}
	}
	members := w.alive()
	if len(members) == 0 {
		w.start(w.freeSlot(), false)
		w.count(joined)
		return
	}
	m := members[w.intn(len(members))]
	kinds := []kind{joined, left}
	for _, k := range optional {
		if w.enabled[k] {
			kinds = append(kinds, k)
		}
	}
	k := kinds[w.intn(len(kinds))]
	w.logf("trouble: %s", k)
	switch k {
	case joined:
		if len(members) < 5 {
			w.start(w.freeSlot(), w.intn(3) == 0)
			w.count(k)
		}
	case left:
		if len(members) > 1 {
			w.count(k)
			w.forget(m)
			background.Go(m.end)
		}
	case abandoned:
		w.logf("%s is abandoned", m.name)
		w.forget(m)
		m.link.cut(true)
		m.link.thaw()
		w.count(k)
		background.Go(m.end)
	case frozen:
		background.Go(func() { w.freeze(m) })
	case kicked:
		background.Go(func() { w.kick(m) })
	case twin:
		w.logf("%s gets a twin", m.name)
		w.start(m.slot, false)
		w.count(k)
	case handlerSlow, handlerDeaf:
		d := w.between(time.Second, 2*rebalance)
		if k == handlerDeaf {
			d = w.between(rebalance, 3*rebalance)
		}
		w.mu.Lock()
		w.stalls = append(w.stalls, stall{d, k == handlerDeaf})
		w.mu.Unlock()
	case commitDelayed, commitCutAfter, commitCutBefore, commitLate:
		d := w.between(100*time.Millisecond, 13*time.Second)
		if k == commitLate {
			d = w.between(10*time.Millisecond, 4*time.Second)
		}
		for range 1 + w.intn(3) {
			w.mu.Lock()
			w.armed = append(w.armed, fate{k, d})
			w.mu.Unlock()
		}
	case commitRetriable:
		w.faultCommit(k, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable)
	case commitRefused:
		w.faultCommit(k, kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.RebalanceInProgress, kerr.StaleMemberEpoch, kerr.UnknownServerError)
	case commitTimedOut:
		w.faultCommit(k, kerr.RequestTimedOut)
	case leaderMoved:
		if w.intn(2) == 0 {
			w.cluster.ShufflePartitionLeaders()
		} else if err := w.cluster.MoveTopicPartition(topic, 0, int32(w.intn(3))); err != nil {
			w.breach("move a partition: %v", err)
		}
		w.count(k)
	case coordinatorMove:
		w.cluster.RehashCoordinators()
		w.count(k)
	case connsDropped:
		if m.link.cut(false) > 0 {
			w.count(k)
		}
	case offsetsExpired:
		if w.intn(2) == 0 {
			w.expire()
		}
	case logTrimmed:
		w.trim(int32(w.intn(int(w.stream.partitions()))))
	case partitionsAdded:
		if w.stream.partitions() < 8 {
			w.stream.grow()
		}
	case storeSlow:
		w.mu.Lock()
		w.slowFor += 1 + w.rng.IntN(4)
		w.mu.Unlock()
	case txnCommitted:
		produced.Go(w.stream.transaction)
	}
}

// faultCommit makes the broker answer an offset commit or two with one of errs.
func (w *world) faultCommit(k kind, errs ...*kerr.Error) {
	h := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: errs[w.intn(len(errs))], Count: 1 + w.intn(2), Group: group})
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = h.Wait(ctx, 1)
		h.Remove()
		for range h.Hits() {
			w.count(k)
		}
	}()
}

func (w *world) isCalm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calm
}

// freeze stops a member's network and its way to the database for longer than the group waits.
func (w *world) freeze(m *member) {
	w.logf("%s freezes", m.name)
	thaw := m.link.freeze()
	time.Sleep(session + w.between(0, 2*session))
	if _, in := m.groupMember(); !in {
		w.count(frozen)
	}
	if w.enabled[logTrimmed] && !w.isCalm() { // what it was about to read is gone, and no longer its concern
		for p := range w.stream.partitions() {
			w.trim(p)
		}
	}
	w.logf("%s goes on", m.name)
	thaw()
}

// calmDeadline is how long everything may take to settle once nothing goes wrong any more.
const calmDeadline = 4 * time.Minute

// settle waits until every record is settled and the group's offsets have followed.
func (w *world) settle() {
	w.preparing = time.Now()
	for deadline := time.Now().Add(calmDeadline); ; {
		behind := w.behind()
		if len(behind) == 0 {
			behind = w.unsettled() // the group may have kept an offset of a topic that is gone
		}
		if len(behind) == 0 || w.hasBreach() {
			return
		}
		if time.Now().After(deadline) {
			w.breach("stuck: %s", strings.Join(behind, "; "))
			w.states()
			return
		}
		time.Sleep(250 * time.Millisecond)
		w.exorcise()
		w.repeat()
		for _, m := range w.alive() {
			select {
			case <-m.done:
				w.forget(m)
				m.ended()
				w.start(w.freeSlot(), false)
			default:
			}
		}
	}
}

// exorcise does what the broker forgets. It does not time a member that was cut off while it joined, and one rebalance in
// thousands never ends though every member has asked to join.
func (w *world) exorcise() {
	info := w.cluster.GroupInfo(group)
	if info == nil || w.is848() {
		return
	}
	if info.State != "PreparingRebalance" {
		w.preparing = time.Now()
	}
	hung := time.Since(w.preparing) > 5*rebalance
	if hung {
		w.preparing = time.Now()
	}
	for _, g := range info.Members {
		w.mu.Lock()
		end, ended := w.ends[g.ClientID]
		w.mu.Unlock()
		if (hung || ended && time.Since(end) > 3*session) && w.leave(g) {
			w.logf("%s is made to leave", g.ClientID)
			w.count(sawBrokerHung)
		}
	}
}

// behind says what is not settled or not committed yet.
func (w *world) behind() (out []string) {
	info := w.cluster.GroupInfo(group)
	for _, p := range w.cluster.PartitionInfos(topic) {
		var committed int64
		if info != nil {
			committed = info.Commits[topic][p.Partition].Offset
		}
		next, epoch := w.db.position(p.Partition), w.db.epoch(p.Partition)
		for _, c := range w.db.standing(w.partition(p.Partition)) {
			if c.State.Halts() {
				out = append(out, fmt.Sprintf("partition %d: %s stands since %s", p.Partition, c.State, c.Since.Sub(w.began)))
			}
		}
		if committed < p.HighWatermark || next < 0 {
			out = append(out, fmt.Sprintf("partition %d ends at %d (stable %d), the store is at %d (epoch %d), the group at %d",
				p.Partition, p.HighWatermark, p.LastStableOffset, next, epoch, committed))
		}
	}
	return out
}

// unsettled says what the log has and the store has not.
func (w *world) unsettled() (out []string) {
	log := w.stream.read()
	w.db.mu.Lock()
	defer w.db.mu.Unlock()
	for at := range log {
		if _, is := w.db.settled[at]; !is && !w.isSkipped(at) {
			out = append(out, fmt.Sprintf("%d@%d is not settled", at.partition, at.offset))
		}
	}
	return out[:min(len(out), 5)]
}

func (w *world) states() {
	if info := w.cluster.GroupInfo(group); info != nil {
		w.logf("group: %s, epoch %d", info.State, info.Epoch)
		for _, g := range info.Members {
			w.logf("group: %s (%s) has %v", g.ClientID, g.MemberID, g.Assignment)
		}
	}
	for _, m := range w.alive() {
		w.logf("member %s is alive", m.name)
	}
}

// verify holds what the database says against the log.
func (w *world) verify() {
	if w.hasBreach() {
		return
	}
	w.db.mu.Lock()
	defer w.db.mu.Unlock()
	log := w.truth
	for _, s := range w.suspects {
		for o := s.stored; o < s.committed; o++ {
			if _, is := log[place{s.topic, s.partition, o}]; is {
				w.breach("partition %d: %s is %d, and the store was at %d", s.partition, s.what, s.committed, s.stored)
				break
			}
		}
	}
	for _, s := range w.ledger.backs {
		for o := s.to; o < s.from; o++ {
			if _, is := log[place{s.topic, s.partition, o}]; is {
				w.breach("partition %d: %s has committed %d, and the group was at %d", s.partition, s.what, s.to, s.from)
				break
			}
		}
	}
	for _, a := range w.db.advances {
		for o := a.from; o < a.to; o++ {
			at := place{a.partition.TopicID, a.partition.Index, o}
			if _, is := log[at]; is && !w.isSkipped(at) && (w.db.settled[at].outcome == 0 || w.db.settled[at].commit > a.commit) {
				w.breach("%v: the position went from %d to %d before it was settled", at, a.from, a.to)
			}
		}
	}
	for at := range w.db.settled {
		if _, is := log[at]; !is {
			w.breach("%v was settled, and is not in the log", at)
		}
	}
	applied := map[string]int{}
	for at, value := range log {
		got, ok := w.db.settled[at]
		key, b, decodes := parse(value)
		if skipped := w.isSkipped(at); skipped == ok {
			w.breach("%v (%s): settled %t, skipped by decision %t", at, value, ok, skipped)
		}
		if !ok {
			continue
		}
		if got.key != key && decodes {
			w.breach("%v: settled as %q, is %q", at, got.key, key)
		}
		if got.outcome == pawl.Applied {
			applied[key]++
		}
		w.judge(at, got, key, b, decodes)
	}
	for key, n := range applied {
		if n != 1 || len(w.db.effects[key]) != 1 {
			w.breach("%s: applied %d times, and has %d effects", key, n, len(w.db.effects[key]))
		}
	}
	for key, contents := range w.db.effects {
		if applied[key] == 0 {
			w.breach("%s: effects %q without a decision", key, contents)
		}
	}
}

// judge says whether a record may have come to what it came to.
func (w *world) judge(at place, got settlement, key string, b body, decodes bool) {
	claimed := w.db.claims[scoped{"storm", pawl.NewKeyID(key)}]
	want := ""
	switch {
	case !decodes:
		want = "quarantined poison"
	case b.kind == "reject":
		want = "quarantined validation"
	case b.kind == "fail":
		want = "quarantined failure"
	case claimed.at == at && b.kind == "ignore":
		want = "ignored "
	case claimed.at == at:
		want = "applied "
	case w.content(claimed.at) == b.content:
		want = "duplicate "
	default:
		want = "quarantined conflict"
	}
	if is := got.outcome.String() + " " + got.cause; is != want {
		w.breach("%v (%s): %s, want %s", at, key, is, want)
	}
}

func (w *world) content(at place) string {
	_, b, _ := parse(w.truth[at])
	return b.content
}
