package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawlhq/pawl"
)

// Balance is how a group divides the partitions among its members. All members must have the same: to change it, stop them
// all and start them with the other one. The broker refuses a Cooperative member among Eager ones and the other way round, and
// its Run says so.
type Balance uint8

const (
	// Cooperative leaves a member what it keeps: when members come and go, only the partitions that move are drained, and the
	// others are read on. A move takes two rounds.
	Cooperative Balance = iota
	// Eager takes all partitions from all members and hands them out anew, in one round: everything is drained, and nothing is
	// read, until the slowest member has finished what it had in flight. For groups that share a protocol with a client that
	// has nothing else.
	Eager
	// BrokerSide lets the broker divide (KIP-848): partitions move one by one, as in Cooperative, and no member waits for the
	// others. The broker then sets session timeout and heartbeat interval. It takes Kafka 4.0, and Run stops on one that is
	// older; before 4.3 a commit that meets a move may fail, which is reported and made good by the next one.
	BrokerSide
)

// options are those of the client that joins a group this way.
func (b Balance) options() []kgo.Opt {
	switch b {
	case Eager:
		return []kgo.Opt{kgo.Balancers(kgo.StickyBalancer())}
	case BrokerSide:
		return []kgo.Opt{kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer()}
	}
	return []kgo.Opt{kgo.Balancers(kgo.CooperativeStickyBalancer())}
}

// unset stands for the balancer of a client that joins no group. It is equal to none that a user can name, so that naming
// any shows, the client's own default too.
type unset struct{ kgo.GroupBalancer }

// maxInstance is what brokers accept, as they accept it for the name of a topic.
const maxInstance = 249

// membership reports what is wrong with the fields that say how to be a member.
func (c *Config) membership() []error {
	var errs []error
	if c.Balance > BrokerSide {
		errs = append(errs, fmt.Errorf("Config.Balance is %d, which is no Balance", c.Balance))
	}
	if err := validInstance(c.Instance); err != nil {
		errs = append(errs, fmt.Errorf("Config.Instance %q: %w", c.Instance, err))
	}
	return errs
}

// validInstance refuses here what a broker would answer with a bare "invalid request".
func validInstance(id string) error {
	if id == "." || id == ".." {
		return errors.New("not a name")
	}
	if len(id) > maxInstance {
		return fmt.Errorf("%d characters long; at most %d", len(id), maxInstance)
	}
	for _, c := range id {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-' {
			continue
		}
		return fmt.Errorf("character %q; use letters, digits and . _ -", c)
	}
	return nil
}

// canBalance reports a broker that cannot divide partitions itself. The client would go over to Eager without a word.
func (r *run) canBalance(ctx context.Context) error {
	if r.cfg.Balance != BrokerSide {
		return nil
	}
	resp, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, r.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return nil // not reachable at the moment: the client goes on trying, and what it then finds is its affair
	}
	heartbeat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	for _, k := range resp.ApiKeys {
		if k.ApiKey == heartbeat.Key() && k.MaxVersion >= 1 {
			return nil
		}
	}
	return &pawl.Error{
		Op: "join group " + r.cfg.Group, Class: pawl.Misconfigured,
		Err:  errors.New("the broker cannot balance: it does not have the group protocol of KIP-848"),
		Hint: "Config.Balance is BrokerSide, which takes Kafka 4.0 with the protocol enabled: use Cooperative",
	}
}

// joinHint says what to do about a member that the group does not let in.
func joinHint(err error) string {
	switch {
	case errors.Is(err, kerr.FencedInstanceID):
		return "another process has joined with the same name (Config.Instance; in a file: kafka.instance), and has taken the place of this one: each needs a name of its own"
	case errors.Is(err, kerr.UnreleasedInstanceID):
		return "a member with the same name (Config.Instance; in a file: kafka.instance) is still in the group: each process needs a name of its own; after a crash, the name is free when the session has run out"
	case errors.Is(err, kerr.InconsistentGroupProtocol):
		return "the group's members balance in another way: Config.Balance must be the same for all of them, and nobody else may be in the group"
	}
	return ""
}

// leave takes leave of the group as a static member that means to come back, where the broker balances. Close would do it
// too, but the client leaves out the name of the instance, the broker refuses that, and the instance is not let in again
// until its session has run out.
func (r *run) leave(ctx context.Context) {
	if r.cfg.Balance != BrokerSide || r.cfg.Instance == "" {
		return
	}
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.InstanceID, req.MemberEpoch = r.cfg.Group, &r.cfg.Instance, -2
	req.MemberID, _ = r.cl.GroupMetadata()
	_ = r.cl.LeaveGroupContext(ctx) // calls revoked for everything; what it sends is refused
	resp, err := req.RequestWith(ctx, r.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		r.cfg.Logger.Warn("the group was not told that this instance is away: it is let in again when its session has run out",
			"instance", r.cfg.Instance, "error", err)
	}
}
