//go:build synctests

package storm

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/pawlhq/pawl"
)

// A wound is what no consumer can repair: the log is not the one that the position belongs to. It comes at the end of a
// storm, when everything is settled, and is the only thing that is wrong then. Nothing may be skipped in silence: Pawl has to
// name it, and goes on only once a person has decided.
const (
	noWound        kind = ""
	recordsDeleted kind = "log truncated at its start, past the position"
	logCut         kind = "log shorter than the position"
	topicRecreated kind = "topic re-created"
)

// wounds are dealt to seeds in turn, so that each protocol meets each.
var wounds = []kind{recordsDeleted, topicRecreated, noWound, logCut}

// named is the words in which Pawl names a wound. The client may find one by itself, after the leader has moved.
var named = map[kind][]string{
	recordsDeleted: {"the records in between have been deleted", "lost records; the client consumed to offset"},
	logCut:         {"the log is shorter than what was read from it before"},
	topicRecreated: {"the topic was deleted and made again", "lost records; the client consumed to offset"},
}

// names reports whether err names the wound of this seed. THE place that knows how Pawl halts: today Run ends.
func (w *world) names(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	wound := w.wound
	if wound == noWound && w.fired[logTrimmed] > 0 {
		// Who is no longer the owner, and does not know it yet, reads behind the position, and may find nothing there.
		wound = recordsDeleted
	}
	return slices.ContainsFunc(named[wound], func(words string) bool { return strings.Contains(err.Error(), words) })
}

// awaitHalt waits until each member has met the wound: who ends leaves the partition to the next.
func (w *world) awaitHalt(members []*member) {
	deadline := time.After(calmDeadline)
	for _, m := range members {
		select {
		case <-m.done:
			w.forget(m)
			if m.err == nil || !w.names(m.err) {
				w.breach("%s met a wound (%s), and ended: %v", m.name, w.wound, m.err)
			}
		case <-deadline:
			w.breach("%s met a wound (%s), and goes on", m.name, w.wound)
			w.states()
			return
		}
	}
}

// hurt wounds partition 0, sees that Pawl halts, decides as an operator would, and sees that everything settles.
func (w *world) hurt(k kind) {
	if k == noWound || w.protocol == serverSideStatic && k != topicRecreated {
		return // there the broker keeps members that have left: no other gets the partition, and nobody can reset the group
	}
	w.remember()
	w.logf("wound: %s", k)
	w.mu.Lock()
	w.wound = k
	w.mu.Unlock()
	if k == topicRecreated {
		w.recreate()
		w.settle()
		return
	}

	before, _ := w.db.position(0)
	underWay := k == recordsDeleted && w.intn(2) == 0
	var met []*member
	if underWay {
		// Without a fetch that waits at the broker: it would be answered before the records are gone.
		for met = w.alive(); len(met) > 1; met = w.alive() {
			met[0].end()
		}
		met[0].link.freeze()
		time.Sleep(3 * time.Second)
	} else {
		w.endAll()
	}
	w.stream.send(w.stream.cl, 0, 0, 0, 0)
	end := w.cluster.PartitionInfo(topic, 0).HighWatermark
	to := end - 1
	if k == recordsDeleted {
		if err := w.cluster.DeleteRecords(topic, 0, to); err != nil {
			w.breach("delete records: %v", err)
		}
	} else {
		// This broker cannot lose the end of a log. It looks the same to a consumer if the position is moved instead.
		to = before
		before = end + 3
		w.db.row(pawl.Partition{Topic: topic, TopicID: w.topicID(), Index: 0}).next = before
	}
	if underWay {
		met[0].link.thaw()
	} else {
		met = []*member{w.start(0, false), w.start(1, false)}
	}
	w.count(k)
	w.awaitHalt(met)
	if next, _ := w.db.position(0); next != before {
		w.breach("%s: the position went from %d to %d by itself", k, before, next)
	}

	w.mu.Lock()
	w.wound, w.operated = noWound, true
	w.mu.Unlock()
	w.endAll()
	var reset kadm.Offsets
	reset.AddOffset(topic, 0, to, -1)
	for try := 1; ; try++ { // a fault that was asked for in the storm may still wait for a commit
		err := kadm.NewClient(w.admin).CommitAllOffsets(context.Background(), group, reset)
		if err == nil {
			break
		}
		if try == 5 {
			w.breach("reset the group: %v", err)
			return
		}
	}
	w.logf("an operator has reset partition 0 to %d", to)
	w.start(0, false)
	w.start(1, false)
	w.settle()
}

// recreate makes the topic anew under its name, under the eyes of the members or while there are none. They may meet it as
// an error or as another assignment: it is another log, and read from its beginning.
func (w *world) recreate() {
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
	clear(w.seen)
	clear(w.signed)
	clear(w.epochs)
	w.mu.Unlock()
	w.count(topicRecreated)
	w.stream.cl.Close()
	w.stream.cl = w.client() // the old one knows the topic by its id
	w.stream.produce(w.stream.cl, 40)
	if stopped {
		w.start(0, false)
		w.startAbsent()
	}
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
func (w *world) trim() {
	p := int32(w.intn(int(w.stream.partitions())))
	next, _ := w.db.position(p) // first: what is settled while the log is read stays
	w.remember()
	info := w.cluster.PartitionInfo(topic, p)
	if info == nil || next <= info.LogStartOffset || next > info.HighWatermark {
		return
	}
	if err := w.cluster.DeleteRecords(topic, p, next); err != nil {
		w.breach("delete records: %v", err)
		return
	}
	w.logf("partition %d begins at %d", p, next)
	w.count(logTrimmed)
}
