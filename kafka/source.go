package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawlhq/pawl"
)

// Config is how to reach a cluster.
type Config struct {
	// Brokers are the addresses to begin with, host:port. Required.
	Brokers []string

	// Group is the consumer group to join. Required.
	Group string

	// Balance is how the group divides the partitions among its members. Default: Cooperative.
	Balance Balance

	// Instance makes this a static member (group.instance.id), by a name that only this process has and that it has again
	// after a restart, as a pod of a stateful set does. What changes:
	//
	//   - A restart within the session timeout (kgo.SessionTimeout; default: 45 s) moves nothing: the same partitions are read on,
	//     and the others of the group do not notice.
	//   - The price: when Run ends, partitions are drained, committed and released as ever, but the group is not left. Nobody
	//     reads them until this instance is back or the session has run out. Before removing an instance for good, let the
	//     session run out, or remove the member with a tool.
	//   - A second process with the same name is a mistake that the broker notices. It ends the Run of one of the two: of the
	//     older one, and with BrokerSide of the younger. There, an instance that has crashed is such a second process too, until
	//     the session of the first has run out.
	//
	// Default: a member that leaves the group when Run ends.
	Instance string

	// TLS encrypts the connections. Default: nil, they are not encrypted.
	TLS *TLS

	// SASL is how to log in. Default: nil, without a login.
	SASL SASL

	// Options are further options of the client: timeouts, fetch sizes, hooks, other kinds of TLS and SASL than
	// those above. Those that would take over what Pawl itself decides (the group and how to be its member, topics, offsets, commits, callbacks) are
	// refused. Every client that is made gets them: one that asks for the cluster's id, and one that reads. Default: none.
	Options []kgo.Opt

	// Watch is how often topics and logs are looked at for what a client that is running does not tell: a topic that was
	// deleted or made again, a log that an open transaction holds up, a log that was cut off. Default: 10 s.
	Watch time.Duration

	// Logger gets the client's warnings. Default: slog.Default().
	Logger *slog.Logger
}

// Source reads topics as a member of a consumer group.
type Source struct {
	cfg Config

	mu      sync.Mutex
	valid   bool // the configuration has been looked at
	running *run // nil while Run is not running
}

var _ pawl.Source = (*Source)(nil)

// New returns a source. What is wrong with the configuration is reported by [Source.Origin] and [Source.Run].
func New(cfg Config) *Source {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Watch <= 0 {
		cfg.Watch = 10 * time.Second
	}
	return &Source{cfg: cfg}
}

// Origin asks the cluster for its id.
func (s *Source) Origin(ctx context.Context) (pawl.Origin, error) {
	cl, err := s.plainClient(ctx)
	if err != nil {
		return pawl.Origin{}, err
	}
	defer cl.Close()
	s.mu.Lock()
	s.valid = true
	s.mu.Unlock()

	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // none: nil would mean all
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		class, hint, refused := refusal(err)
		if !refused {
			class, hint = pawl.Transient, "is the address right, and does the broker expect TLS or a login?"
		}
		return pawl.Origin{}, &pawl.Error{
			Op: fmt.Sprintf("ask %v for the cluster's id", s.cfg.Brokers), Class: class, Err: err, Hint: hint,
		}
	}
	if resp.ClusterID == nil || *resp.ClusterID == "" {
		return pawl.Origin{}, &pawl.Error{
			Op: fmt.Sprintf("ask %v for the cluster's id", s.cfg.Brokers), Class: pawl.Misconfigured,
			Err:  errors.New("the cluster has no id"),
			Hint: "positions are kept by cluster id and topic id: a broker without them cannot be read safely",
		}
	}
	return pawl.Origin{Cluster: *resp.ClusterID, Group: s.cfg.Group}, nil
}

// Run reads topics into in until ctx ends, and then leaves the group. One Run at a time.
func (s *Source) Run(ctx context.Context, topics []string, in pawl.Intake) error {
	if len(topics) == 0 {
		return &pawl.Error{Op: "read from kafka", Class: pawl.Misconfigured, Err: errors.New("no topics")}
	}
	if err := s.validate(ctx); err != nil {
		return err
	}
	for {
		r := newRun(s.cfg, in)
		if err := s.begin(r); err != nil {
			return err
		}
		err := r.run(ctx, topics)
		s.end()
		if ctx.Err() != nil || !errors.Is(err, errRejoin) {
			return err
		}
	}
}

// validate reports what is wrong with the configuration, unless Origin has found it sound before: each look makes a
// client, and hooks among the options see it.
func (s *Source) validate(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.valid {
		return nil
	}
	cl, err := s.plainClient(ctx)
	if err != nil {
		return err
	}
	cl.Close()
	s.valid = true
	return nil
}

func (s *Source) begin(r *run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		err := errors.New("this source is already running")
		return &pawl.Error{Op: "read from kafka", Class: pawl.Misconfigured, Err: err}
	}
	s.running = r
	return nil
}

func (s *Source) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = nil
}

// Commit stores offsets with the group. It returns an error if any of them was not stored, or may not have been.
func (s *Source) Commit(ctx context.Context, commits []pawl.Commit) error {
	s.mu.Lock()
	r := s.running
	s.mu.Unlock()
	if r == nil {
		return nil // every assignment has ended
	}
	return r.commit(ctx, commits)
}

// run is one membership in the group, from Run's start to its end.
type run struct {
	cfg    Config
	in     pawl.Intake
	cl     *kgo.Client
	joined chan struct{}      // closed when cl is set: callbacks may come before
	stop   context.CancelFunc // ends the poll loop

	reading context.Context // ends when the poll loop is to end; set before cl

	// commits is held for reading while a commit is under way, and for writing to end assignments: when an assignment has
	// ended, no commit for it is on its way any more.
	commits sync.RWMutex

	// Taken after commits and after assignment.handing, never before.
	mu        sync.Mutex
	wasMember bool                             // the group has given us partitions
	outcast   bool                             // it was told that we lack the right to join
	ids       map[string]pawl.TopicID          // of topics, as first seen: those that the client knows
	commitsOf groupCommits                     // as fetched for the latest assignment
	live      map[string]map[int32]*assignment // not ended, by topic and partition
	rewinds   []rewind                         // asked for, not yet done
	wake      context.CancelFunc               // interrupts the poll under way
	err       error                            // why Run ends early
	closing   *time.Timer                      // once the group is being left: gives it up
}

func newRun(cfg Config, in pawl.Intake) *run {
	return &run{
		cfg: cfg, in: in, joined: make(chan struct{}), ids: make(map[string]pawl.TopicID), live: make(map[string]map[int32]*assignment),
		wake: func() {}, stop: func() {},
	}
}

// leaveTimeout bounds leaving the group, after the intake has drained.
const leaveTimeout = 5 * time.Second

func (r *run) run(ctx context.Context, topics []string) error {
	ctx, r.stop = context.WithCancel(ctx)
	defer r.stop()
	r.reading = ctx

	// The client outlives ctx: when ctx ends, what was settled is committed and the group is left. abandon bounds that.
	clientCtx, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	cl, err := kgo.NewClient(r.options(clientCtx, topics)...)
	if err != nil {
		return &pawl.Error{Op: "make a kafka client", Class: pawl.Misconfigured, Err: err}
	}
	r.cl = cl
	close(r.joined)
	if err := r.canBalance(ctx); err != nil {
		r.fail(err)
	}
	var watching sync.WaitGroup
	watching.Go(func() { r.watch(ctx, topics) })
	r.poll(ctx)
	r.stop()
	watching.Wait()

	closing := time.AfterFunc(r.drainTimeout()+leaveTimeout, abandon)
	defer closing.Stop()
	r.mu.Lock()
	r.closing = closing
	r.mu.Unlock()
	r.leave(clientCtx)
	cl.Close() // calls revoked for everything, and then leaves the group
	r.lose(r.all())

	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// fail ends Run with an error; the first one counts.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
	r.stop()
}

// drainTimeout is how long the intake may take to give partitions back: less than the group waits before it expels us.
func (r *run) drainTimeout() time.Duration {
	limit, _ := r.cl.OptValue(kgo.RebalanceTimeout).(time.Duration)
	return limit * 2 / 3
}
