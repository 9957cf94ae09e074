//go:build synctests

package storm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/kafka"
)

const (
	topic   = "events"
	group   = "storm"
	cluster = "storm-cluster"

	session   = 6 * time.Second
	rebalance = 9 * time.Second
	heartbeat = time.Second
)

// world is one seed: a cluster, a database, members, and what has been done to them.
type world struct {
	t        *testing.T
	seed     int
	protocol string
	order    pawl.Order
	net      kfake.VirtualNetwork
	cluster  *kfake.Cluster
	addrs    []string
	admin    *kgo.Client // reaches the cluster without trouble, as does the producer
	db       *database
	stream   *stream
	began    time.Time

	enabled map[kind]bool

	mu       sync.Mutex
	rng      *rand.Rand
	calm     bool // nothing new goes wrong
	fired    map[kind]int
	armed    []fate // for the next offset commits
	stalls   []stall
	stalled  map[string]bool // keys
	slowFor  int             // transactions
	members  []*member
	born     int
	ends     map[string]time.Time // of members
	slots    int                  // static ids that were ever used
	suspects []suspect
	ledger   ledger
	epochs   map[int32]int64
	log      []string
	breaches []string

	id      pawl.TopicID
	wound   kind   // what the log suffers from
	skipped []skip // by an operator's decision

	preparing time.Time        // since when the group has been preparing to rebalance
	truth     map[place]string // the log, once the storm is over
}

// stall makes the next handler call wait.
type stall struct {
	d    time.Duration
	deaf bool // to its context
}

// suspect is an offset commit beyond the store's position: innocent if there is no record in between.
type suspect struct {
	topic             pawl.TopicID
	partition         int32
	stored, committed int64
	what              string
}

func newWorld(t *testing.T, seed int) *world {
	w := &world{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(uint64(seed), 11)), fired: map[kind]int{}, enabled: map[kind]bool{},
		stalled: map[string]bool{}, ends: map[string]time.Time{}, ledger: newLedger(), epochs: map[int32]int64{}, began: time.Now(),
	}
	w.protocol = protocols[seed%len(protocols)]
	w.order = orders[seed%len(orders)]
	w.db = newDatabase(w)
	c, err := kfake.NewCluster(
		kfake.NumBrokers(3), kfake.Ports(9092, 9093, 9094), kfake.ListenFn(w.net.Listen), kfake.ClusterID(cluster),
		kfake.SeedTopics(int32(2+w.rng.IntN(4)), topic),
		kfake.BrokerConfigs(map[string]string{
			"group.consumer.heartbeat.interval.ms": fmt.Sprint(heartbeat.Milliseconds()),
			"group.consumer.session.timeout.ms":    fmt.Sprint(session.Milliseconds()),
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	w.cluster, w.addrs, w.id = c, c.ListenAddrs(), c.TopicInfo(topic).TopicID
	w.admin = w.client()
	w.stream = newStream(w)
	return w
}

func (w *world) client(opts ...kgo.Opt) *kgo.Client {
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(w.addrs...), kgo.Dialer(newLink(w, nil).dial), kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(topic),
	}, opts...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	return cl
}

// Randomness is drawn under mu: a seed decides the script, and not which goroutine meets which part of it.

func (w *world) intn(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

func (w *world) between(from, to time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return from + time.Duration(w.rng.Int64N(int64(to-from)))
}

// chance is one in n, while the storm lasts and if the seed has this kind of trouble; it counts what it grants.
func (w *world) chance(k kind, n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calm || !w.enabled[k] || w.rng.IntN(n) > 0 {
		return false
	}
	w.fired[k]++
	return true
}

func (w *world) count(k kind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fired[k]++
}

// slow is how long the next commit to the store takes.
func (w *world) slow() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calm || w.slowFor == 0 {
		return 0
	}
	w.slowFor--
	w.fired[storeSlow]++
	return time.Duration(w.rng.Int64N(int64(8 * time.Second)))
}

func (w *world) fateOfCommit() fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calm || len(w.armed) == 0 {
		return fate{}
	}
	f := w.armed[0]
	w.armed = w.armed[1:]
	return f
}

// stall is asked for each handler call. A key stalls once: a record that uses up its time again and again is set aside.
func (w *world) stall(key string) (stall, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calm || len(w.stalls) == 0 || w.stalled[key] {
		return stall{}, false
	}
	w.stalled[key] = true
	s := w.stalls[0]
	w.stalls = w.stalls[1:]
	if s.deaf {
		w.fired[handlerDeaf]++
	} else {
		w.fired[handlerSlow]++
	}
	return s, true
}

func (w *world) logf(format string, args ...any) {
	line := fmt.Sprintf("%9.3fs ", time.Since(w.began).Seconds()) + fmt.Sprintf(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, line)
}

// breach is what must not happen.
func (w *world) breach(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	w.logf("BREACH %s", s)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.breaches) < 20 {
		w.breaches = append(w.breaches, s)
	}
}

// compare holds an offset that owner epoch has committed against the position.
func (w *world) compare(p pawl.Partition, offset, epoch int64, what string) {
	next, moved := w.db.position(p.Index), w.db.movedBy(p)
	if p.TopicID == w.topicID() && offset > next && epoch >= moved {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.suspects = append(w.suspects, suspect{p.TopicID, p.Index, next, offset, what})
	}
}

// inOrderWith names what a record of a stream is settled in order with.
func (w *world) inOrderWith(stream string) (fifo string, ordered bool) {
	switch w.order {
	case pawl.OrderPartition:
		return "", true
	case pawl.OrderStream:
		return stream, stream != ""
	}
	return "", false
}

// sample looks at broker and store at one moment.
func (w *world) sample() {
	if info := w.cluster.GroupInfo(group); info != nil {
		for p, c := range info.Commits[topic] {
			if s, ok := readSignature(c.Offset, &c.Metadata); ok {
				w.compare(pawl.Partition{Topic: topic, TopicID: w.topicID(), Index: p}, c.Offset, s.epoch, "the group's offset")
			}
		}
	}
	for p := range w.stream.partitions() {
		epoch := w.db.epoch(p)
		if epoch < w.epochs[p] {
			w.breach("partition %d: the epoch went from %d back to %d", p, w.epochs[p], epoch)
		}
		w.epochs[p] = epoch
	}
}

// member is one runner on one source.
type member struct {
	w    *world
	name string
	slot int // of static membership
	link *link
	stop context.CancelFunc
	done chan struct{}
	err  error

	mu   sync.Mutex
	txns map[pawl.Partition]map[*context.Context]context.Context // transactions under way
	id   string                                                  // that it has in the group
	held map[int32]*held
}

func (w *world) alive() []*member {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.members)
}

func (w *world) start(slot int, brittle bool) *member {
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{
		w: w, slot: slot, stop: cancel, done: make(chan struct{}), held: map[int32]*held{},
		txns: map[pawl.Partition]map[*context.Context]context.Context{},
	}
	m.link = newLink(w, m)
	w.mu.Lock()
	w.born++
	m.name = fmt.Sprintf("m%d", w.born)
	w.members = append(w.members, m)
	w.slots = max(w.slots, slot+1)
	w.mu.Unlock()
	w.logf("%s joins, slot %d, brittle %t", m.name, slot, brittle)

	logger := slog.New(&logHandler{m: m})
	cfg := pawl.Config{
		Consumer: "storm", Version: "storm", Workers: 3, MaxBatch: 40, MaxTries: 3, CommitInterval: time.Second,
		HandlerTimeout: 4 * time.Second, ShutdownTimeout: 3 * time.Second, Logger: logger,
		Hooks: pawl.Hooks{Restarted: func(p pawl.Partition, err error) {
			w.count(sawRestarted)
			if !errors.Is(err, pawl.ErrFenced) {
				w.breach("%s: %s restarts: %v", m.name, p, err)
			}
		}},
	}
	if brittle {
		cfg.ShutdownTimeout = time.Millisecond
	}
	src := kafka.New(kafka.Config{Brokers: w.addrs, Group: group, Logger: logger, Options: w.options(m)})
	r := pawl.NewRunner[*tx](&store{w.db, m}, &source{src, m}, cfg)
	pawl.Handle(r, pawl.Route{Name: "storm", Topics: []string{topic}, Order: w.order}, decoder{}, m.handle)
	go func() {
		defer close(m.done)
		m.err = r.Run(ctx)
		w.logf("%s ended: %v", m.name, m.err)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ends[m.name] = time.Now()
	}()
	return m
}

func (w *world) options(m *member) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.Dialer(m.link.dial), kgo.ClientID(m.name), kgo.SessionTimeout(session), kgo.RebalanceTimeout(rebalance),
		kgo.HeartbeatInterval(heartbeat), kgo.FetchMaxWait(2 * time.Second),
	}
	instance := kgo.InstanceID(fmt.Sprintf("slot-%d", m.slot))
	switch w.protocol {
	case cooperative:
		return opts
	case eagerSticky:
		return append(opts, kgo.Balancers(kgo.StickyBalancer()))
	case eagerRange:
		return append(opts, kgo.Balancers(kgo.RangeBalancer()))
	case static:
		return append(opts, instance)
	case staticEager:
		return append(opts, instance, kgo.Balancers(kgo.StickyBalancer()))
	case serverSide:
		return append(opts, kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer())
	case serverSideStatic:
		return append(opts, instance, kgo.Balancers(kgo.RangeBalancer()), kgo.ServerSideBalancer())
	}
	panic(w.protocol)
}

func (w *world) isStatic() bool { return strings.Contains(w.protocol, "static") }
func (w *world) is848() bool    { return strings.HasPrefix(w.protocol, serverSide) }

// forget takes a member out of the list of those that are expected to work.
func (w *world) forget(m *member) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.members = slices.DeleteFunc(w.members, func(o *member) bool { return o == m })
}

// end stops a member and waits until it has ended. What it answers must be nil.
func (m *member) end() {
	m.w.forget(m)
	m.stop()
	m.ended()
}

// patience is how long a member may take to end: the drain, twice, a commit under way, and leaving the group.
const patience = 90 * time.Second

func (m *member) ended() {
	select {
	case <-m.done:
	case <-time.After(patience):
		m.w.breach("%s has not ended within %s", m.name, patience)
		return
	}
	if m.err != nil && !m.excused() {
		m.w.breach("%s ended: %v", m.name, m.err)
	}
}

// excused are the ends that are the storm's own doing.
func (m *member) excused() bool {
	if m.link.isDead() {
		return true
	}
	m.w.mu.Lock()
	slow := m.w.fired[handlerDeaf] + m.w.fired[storeSlow] + m.w.fired[commitAnswerLost] + m.w.fired[frozen]
	m.w.mu.Unlock()
	if strings.Contains(m.err.Error(), "does not return although its context ended") {
		return slow > 0
	}
	return m.w.isStatic() && (errors.Is(m.err, kerr.FencedInstanceID) || errors.Is(m.err, kerr.UnreleasedInstanceID))
}

// reach is how a member gets at the database: not at all while it is frozen, and not any more once it is abandoned.
func (m *member) reach(ctx context.Context) error {
	m.link.wait(ctx)
	if m.link.isDead() {
		return errLink
	}
	return ctx.Err()
}

// groupMember is what the group knows of m.
func (m *member) groupMember() (kfake.GroupMember, bool) {
	if info := m.w.cluster.GroupInfo(group); info != nil {
		for _, g := range info.Members {
			if g.ClientID == m.name {
				return g, true
			}
		}
	}
	return kfake.GroupMember{}, false
}

func (m *member) handle(ctx context.Context, t *tx, e pawl.Envelope[body]) error {
	if s, ok := m.w.stall(e.Key); ok {
		m.w.logf("%s: the handler stalls for %s, deaf %t", m.name, s.d, s.deaf)
		var over <-chan struct{}
		if !s.deaf {
			over = ctx.Done()
		}
		select {
		case <-time.After(s.d):
		case <-over:
			return ctx.Err()
		}
	}
	switch e.Body.kind {
	case "ignore":
		return pawl.Ignore("not for us")
	case "reject": // after it has written
		t.write(e.Key, e.Body.content)
		return pawl.Reject(errors.New("no"))
	case "fail":
		t.write(e.Key, e.Body.content)
		return errors.New("something")
	case "later":
		if m.w.stream.postponed(e.Key) {
			return pawl.Later(200 * time.Millisecond)
		}
	}
	t.write(e.Key, e.Body.content)
	return nil
}

// logHandler keeps what a member logs for the report of a failure.
type logHandler struct {
	m     *member
	attrs string
}

func (h *logHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s%s", h.m.name, r.Level, r.Message, h.attrs)
	r.Attrs(func(a slog.Attr) bool { fmt.Fprintf(&b, " %s=%v", a.Key, a.Value); return true })
	h.m.w.logf("%s", b.String())
	return nil
}

func (h *logHandler) WithAttrs(as []slog.Attr) slog.Handler {
	n := *h
	for _, a := range as {
		n.attrs += fmt.Sprintf(" %s=%v", a.Key, a.Value)
	}
	return &n
}

func (h *logHandler) WithGroup(string) slog.Handler { return h }

// kick makes the coordinator expel a member, or say so.
func (w *world) kick(m *member) {
	g, ok := m.groupMember()
	if !ok {
		return
	}
	if w.is848() { // nobody can be made to leave: the coordinator forgets it
		w.cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.ConsumerGroupHeartbeat}, TopLevel: true,
			Err: []*kerr.Error{kerr.UnknownMemberID, kerr.FencedMemberEpoch}[w.intn(2)],
			When: func(r kmsg.Request) bool {
				hit := r.(*kmsg.ConsumerGroupHeartbeatRequest).MemberID == g.MemberID
				if hit {
					w.count(kicked)
				}
				return hit
			},
		})
		return
	}
	if w.leave(g) {
		w.count(kicked)
		w.logf("%s is kicked", m.name)
	}
}

// leave takes a member out of the group, as an operator can.
func (w *world) leave(g kfake.GroupMember) bool {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = group
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID, m.InstanceID = g.MemberID, g.InstanceID
	req.Members = append(req.Members, m)
	resp, err := req.RequestWith(context.Background(), w.admin)
	return err == nil && resp.ErrorCode == 0 && len(resp.Members) == 1 && resp.Members[0].ErrorCode == 0
}

// expire makes the group forget its offsets, which takes that it has no members.
func (w *world) expire() {
	for _, m := range w.alive() {
		m.end()
	}
	deadline := time.Now().Add(4 * session)
	for time.Now().Before(deadline) {
		if info := w.cluster.GroupInfo(group); info == nil || len(info.Members) == 0 {
			break
		}
		time.Sleep(time.Second)
	}
	adm := kadm.NewClient(w.admin)
	var s kadm.TopicsSet
	for p := range w.stream.partitions() {
		s.Add(topic, int32(p))
	}
	resp, err := adm.DeleteOffsets(context.Background(), group, s)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		if del, derr := adm.DeleteGroup(context.Background(), group); derr != nil || del.Err != nil {
			w.logf("offsets are not deleted: %v; %v, %v", err, derr, del.Err)
			return
		}
	}
	if info := w.cluster.GroupInfo(group); info == nil || len(info.Commits[topic]) == 0 {
		w.count(offsetsExpired)
		w.mu.Lock()
		clear(w.ledger.last)
		w.mu.Unlock()
		w.logf("the group's offsets are gone")
	}
}
