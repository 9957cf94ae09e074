//go:build synctests

package storm

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/pawlhq/pawl"
)

// A wound is what no consumer can repair: the log, or the group's offset, is not the one that the position belongs to. It
// comes at the end of a storm, when everything is settled, and is the only thing that is wrong then. Nothing may be skipped in
// silence: Pawl halts the partition and names its state in the store, and goes on only once a person has decided.
const (
	noWound        kind = ""
	recordsDeleted kind = "log truncated at its start, past the position"
	logCut         kind = "log shorter than the position"
	topicRecreated kind = "topic re-created"
	offsetReset    kind = "group's offset reset"

	answeredToStay  kind = "an answer that mends nothing"
	ownerChanged    kind = "halted partition gets another owner"
	askedAgain      kind = "(seen) a reset asked about again"
	answeredThenCut kind = "owner abandoned when it has moved"
)

// wounds are dealt to seeds in turn, so that each protocol meets each.
var wounds = []kind{recordsDeleted, topicRecreated, offsetReset, logCut, noWound}

// named is the states in which Pawl may find a wound. The client may find one by itself, after the leader has moved.
var named = map[kind][]pawl.State{
	recordsDeleted: {pawl.StateBelowLog, pawl.StateDataLoss},
	logCut:         {pawl.StateAboveLog},
	topicRecreated: {pawl.StateRecreated},
	offsetReset:    {pawl.StateOffsetReset},
}

// skip is what an operator has decided not to read.
type skip struct {
	partition pawl.Partition
	from, to  int64
}

func (w *world) isSkipped(at place) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.skipped, func(s skip) bool {
		return s.partition.TopicID == at.topic && s.partition.Index == at.partition && s.from <= at.offset && at.offset < s.to
	})
}

// expects reports whether a condition is the storm's doing.
func (w *world) expects(c pawl.Condition) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case c.State == pawl.StateStoreWentBack:
		return false // it never does
	case c.State == pawl.StateTopicMissing:
		return w.wound == topicRecreated
	case !c.State.Halts():
		return true
	}
	return slices.Contains(named[w.wound], c.State) && (w.wound == topicRecreated || c.Partition.Index == 0)
}

func (w *world) partition(index int32) pawl.Partition {
	return pawl.Partition{Topic: topic, TopicID: w.topicID(), Index: index}
}

// hurt wounds the log, sees that Pawl halts, decides as an operator would, and sees that everything settles.
func (w *world) hurt(k kind) {
	if k == noWound || w.protocol == serverSideStatic && k == offsetReset {
		return // there the broker keeps members that have left, and nobody can reset the group
	}
	w.remember()
	w.logf("wound: %s", k)
	w.mu.Lock()
	w.wound = k
	w.mu.Unlock()
	wounded := []int32{0}
	var unread, lost int64 // the first offset that is not settled; the first that is gone
	switch k {
	case recordsDeleted:
		lost = w.deleteRecords()
	case logCut:
		unread = w.shorten()
	case offsetReset:
		unread = w.reset()
	case topicRecreated:
		wounded = w.recreate()
	}
	w.count(k)
	if w.hasBreach() {
		return
	}
	was := w.inventory(wounded)
	w.awaitHalt(wounded)
	w.unrest()
	is := w.inventory(wounded)
	if k == recordsDeleted && is[0].next <= lost { // past records without data it may go
		is[0] = holding{was[0].next, is[0].settled}
	}
	if !maps.Equal(was, is) {
		w.breach("%s: the store had %v, and has %v, though nobody has decided", k, was, is)
	}
	for _, m := range w.alive() {
		select {
		case <-m.done:
			if m.err == nil || !m.excused() {
				w.breach("%s met a wound (%s), and ended: %v", m.name, k, m.err)
			}
		default:
		}
	}
	if w.hasBreach() {
		return
	}
	for _, p := range wounded {
		w.decide(k, w.partition(p), unread)
	}
	if w.intn(3) == 0 { // the next owner finds the position moved, and the group's offset as it was
		w.cutAfterMove()
	}
	w.stream.produce(w.stream.cl, 10)
	w.settle()
}

// holding is what the store has of a partition: its position, and how many records are settled.
type holding struct{ next, settled int64 }

func (w *world) inventory(of []int32) map[int32]holding {
	all := map[int32]holding{}
	for _, p := range of {
		all[p] = holding{next: w.db.position(p)}
	}
	id := w.topicID()
	w.db.mu.Lock()
	defer w.db.mu.Unlock()
	for at := range w.db.settled {
		if h, is := all[at.partition]; is && at.topic == id {
			all[at.partition] = holding{h.next, h.settled + 1}
		}
	}
	return all
}

// standing is the state in which a partition is halted, or "".
func (w *world) standing(p pawl.Partition) pawl.State {
	for _, c := range w.db.standing(p) {
		if c.State.Halts() {
			return c.State
		}
	}
	return ""
}

// awaitHalt waits until each wounded partition is halted in a state that names its wound.
func (w *world) awaitHalt(wounded []int32) {
	for deadline := time.Now().Add(calmDeadline); !w.hasBreach(); time.Sleep(250 * time.Millisecond) {
		open := slices.DeleteFunc(slices.Clone(wounded), func(p int32) bool { return w.standing(w.partition(p)) != "" })
		if len(open) == 0 {
			return
		}
		if time.Now().After(deadline) {
			w.breach("%s: partitions %v are not halted", w.wound, open)
			w.states()
			return
		}
		w.exorcise()
	}
}

// unrest lets time pass over halted partitions, perhaps with another owner.
func (w *world) unrest() {
	if members := w.alive(); w.intn(2) == 0 && len(members) > 0 && w.protocol != serverSideStatic {
		w.count(ownerChanged)
		w.start(w.freeSlot(), false)
		time.Sleep(w.between(0, 5*time.Second))
		members[w.intn(len(members))].end()
	}
	time.Sleep(w.between(5*time.Second, 20*time.Second))
}

// decide answers the condition of a partition, as an operator would.
func (w *world) decide(k kind, p pawl.Partition, unread int64) {
	info := w.cluster.PartitionInfo(topic, p.Index)
	start, end := info.LogStartOffset, info.HighWatermark
	state := w.standing(p)
	var to, skipFrom int64 // skipFrom: where what is not settled begins
	switch k {
	case recordsDeleted, logCut:
		if w.intn(2) == 0 { // nothing is mended by it
			w.logf("an operator says to go on with partition %d", p.Index)
			w.db.answer(p, state, pawl.GoOn)
			w.count(answeredToStay)
			time.Sleep(15 * time.Second)
			w.awaitHalt([]int32{p.Index})
			state = w.standing(p)
		}
		skipFrom = max(unread, start)
		to = []int64{start, skipFrom, end}[w.intn(3)]
	case offsetReset:
		skipFrom = unread
		to = []int64{pawl.GoOn, start, unread + 2}[w.intn(3)]
	case topicRecreated:
		skipFrom = start
		to = []int64{pawl.GoOn, pawl.GoOn, start, end}[w.intn(4)]
	}
	w.logf("an operator answers to %s of partition %d: %d (the log has %d to %d, unread from %d)", state, p.Index, to, start, end, skipFrom)
	if to > skipFrom {
		w.mu.Lock()
		w.skipped = append(w.skipped, skip{p, skipFrom, to})
		w.mu.Unlock()
	}
	if !w.db.answer(p, state, to) {
		w.breach("%s: %q of partition %d is over before it was answered", k, state, p.Index)
	}
}

// repeat answers a question that is asked once more: the group's offset stays the one that was set, until the owner that has
// carried out the answer has lived to commit one.
func (w *world) repeat() {
	w.mu.Lock()
	again := w.wound == offsetReset
	w.mu.Unlock()
	if at := (state{w.partition(0), pawl.StateOffsetReset}); again && w.db.unanswered(at) {
		w.count(askedAgain)
		w.db.answer(at.partition, at.state, pawl.GoOn)
	}
}

// cutAfterMove abandons the member that has carried out a decision, if there is one, before it has committed an offset.
func (w *world) cutAfterMove() {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		moved := w.db.movedBy(w.partition(0))
		if moved == 0 {
			continue
		}
		name := w.db.ownerOf(signature{w.partition(0), moved}).to
		for _, m := range w.alive() {
			if m.name == name {
				w.logf("%s is abandoned", m.name)
				w.count(answeredThenCut)
				w.forget(m)
				m.link.cut(true)
				w.start(w.freeSlot(), false)
				m.end()
				w.startAbsent()
			}
		}
		return
	}
}

// deleteRecords deletes what was not read, under the eyes of the members or while there are none.
func (w *world) deleteRecords() (lost int64) {
	underWay := w.intn(2) == 0
	members := w.alive()
	if underWay {
		// Without a fetch that waits at the broker: it would be answered before the records are gone.
		for _, m := range members {
			m.link.freeze()
		}
		time.Sleep(3 * time.Second)
	} else {
		w.endAll()
	}
	lost = w.cluster.PartitionInfo(topic, 0).HighWatermark
	w.stream.send(w.stream.cl, 0, 0, 0, 0)
	if err := w.cluster.DeleteRecords(topic, 0, w.cluster.PartitionInfo(topic, 0).HighWatermark-1); err != nil {
		w.breach("delete records: %v", err)
	}
	if underWay {
		for _, m := range members {
			m.link.thaw()
		}
	} else {
		w.startAbsent()
	}
	return lost
}

// shorten makes the log shorter than the position. This broker cannot lose the end of a log. It looks the same to a consumer
// if the position is moved instead.
func (w *world) shorten() (unread int64) {
	w.endAll()
	unread = w.db.position(0)
	w.stream.send(w.stream.cl, 0, 0, 0, 0)
	r := w.db.row(w.partition(0))
	w.db.mu.Lock()
	r.next = w.cluster.PartitionInfo(topic, 0).HighWatermark + 3
	w.db.mu.Unlock()
	w.startAbsent()
	return unread
}

// reset sets the group's offset, as people do with a tool.
func (w *world) reset() (unread int64) {
	w.endAll()
	unread = w.db.position(0)
	w.stream.send(w.stream.cl, 0, 0, 0, 0)
	var to kadm.Offsets
	to.AddOffset(topic, 0, []int64{unread + 2, w.cluster.PartitionInfo(topic, 0).LogStartOffset}[w.intn(2)], -1)
	if unread == w.cluster.PartitionInfo(topic, 0).LogStartOffset {
		to[topic][0] = kadm.Offset{Topic: topic, At: unread + 2, LeaderEpoch: -1}
	}
	for try := 1; ; try++ { // a fault that was asked for in the storm may still wait for a commit
		err := kadm.NewClient(w.admin).CommitAllOffsets(context.Background(), group, to)
		if err == nil {
			break
		}
		if try == 5 {
			w.breach("reset the group: %v", err)
			break
		}
	}
	w.startAbsent()
	return unread
}

// recreate makes the topic anew under its name, under the eyes of the members or while there are none.
func (w *world) recreate() (wounded []int32) {
	// A group of KIP-848 whose static members have all left forgets, in this broker, to hand out the new topic.
	stopped := w.intn(2) == 0 && w.protocol != serverSideStatic
	if stopped {
		w.endAll()
	}
	n := w.stream.partitions()
	if err := w.cluster.DeleteTopic(topic); err != nil {
		w.breach("delete the topic: %v", err)
	}
	if w.intn(2) == 0 {
		time.Sleep(w.between(time.Millisecond, 5*time.Second))
	}
	if err := w.cluster.CreateTopic(topic, n, nil); err != nil {
		w.breach("create the topic: %v", err)
	}
	w.mu.Lock()
	w.id = w.cluster.TopicInfo(topic).TopicID
	clear(w.ledger.last)
	clear(w.ledger.newest)
	clear(w.epochs)
	w.mu.Unlock()
	w.stream.cl.Close()
	w.stream.cl = w.client() // the old one knows the topic by its id
	w.stream.produce(w.stream.cl, 40)
	if stopped {
		w.startAbsent()
	}
	for p := range n {
		wounded = append(wounded, p)
	}
	return wounded
}

// endAll ends every member, and waits until the group knows.
func (w *world) endAll() {
	for _, m := range w.alive() {
		m.end()
	}
	for deadline := time.Now().Add(5 * session); time.Now().Before(deadline); time.Sleep(time.Second) {
		if info := w.cluster.GroupInfo(group); info == nil || len(info.Members) == 0 {
			return
		}
		w.exorcise()
	}
}

// remember reads the log again, and adds it to what was read before: records that were deleted since have been there.
func (w *world) remember() {
	now := w.stream.read()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.truth == nil {
		w.truth = map[place]string{}
	}
	maps.Copy(w.truth, now)
}

// topicID is the id of the topic of the moment. It is kept, because the broker cannot be asked from inside a request.
func (w *world) topicID() pawl.TopicID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.id
}

// trim deletes records that are settled, as retention does: nobody has to notice, but for who still reads behind the position.
func (w *world) trim(p int32) {
	next := w.db.position(p) // first: what is settled while the log is read stays
	w.remember()
	info := w.cluster.PartitionInfo(topic, p)
	if info == nil {
		return
	}
	next = min(next, info.HighWatermark-1) // of an empty log this broker would say, once it has another leader, that it was cut off at 0
	if next <= info.LogStartOffset {
		return
	}
	if err := w.cluster.DeleteRecords(topic, p, next); err != nil {
		w.breach("delete records: %v", err)
		return
	}
	w.logf("partition %d begins at %d", p, next)
	w.count(logTrimmed)
}
