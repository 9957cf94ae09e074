package kafka

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl"
)

// defaults come before the user's options, which may override them. A backlog of any length costs at most
// maxConcurrentFetches times the size of a fetch.
func (c *Config) defaults() []kgo.Opt {
	return []kgo.Opt{
		kgo.WithLogger(logger{c.Logger}),
		kgo.ClientID("pawl"),
		kgo.FetchMaxBytes(4 << 20),
		kgo.FetchMaxPartitionBytes(256 << 10),
		kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.MaxConcurrentFetches(4),
		kgo.MaxDecompressBatchBytes(64 << 20),
		// New partitions are found by metadata. The client's own default of five minutes is long for records to wait.
		kgo.MetadataMaxAge(3 * time.Second),
		kgo.MetadataMinAge(500 * time.Millisecond),
	}
}

// options are those of the client that reads. Pawl's own come last: nothing overrides them.
func (r *run) options(ctx context.Context, topics []string) []kgo.Opt {
	opts := slices.Concat(r.cfg.defaults(), r.cfg.Options, r.cfg.secure(), r.cfg.Balance.options())
	if r.cfg.Instance != "" {
		opts = append(opts, kgo.InstanceID(r.cfg.Instance))
	}
	return append(opts,
		kgo.SeedBrokers(r.cfg.Brokers...),
		kgo.WithContext(ctx),
		kgo.ConsumerGroup(r.cfg.Group),
		kgo.ConsumeTopics(topics...),
		kgo.DisableAutoCommit(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
		// Both: the reset offset alone would also become the start offset, which is then the end of the log.
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.OnOffsetsFetched(r.fetched),
		kgo.OnPartitionsAssigned(r.rebalanced),
		kgo.AdjustFetchOffsetsFn(r.assigned),
		kgo.OnPartitionsRevoked(r.revoked),
		kgo.OnPartitionsLost(r.lost),
		kgo.WithHooks(refusedLogin{r}),
	)
}

// reservedOption is one that is refused.
type reservedOption struct {
	name string
	opt  any
	why  string
}

// reserved are the options that Pawl sets itself, or that would make it unsafe.
var reserved = []reservedOption{
	{"SeedBrokers", kgo.SeedBrokers, "use Config.Brokers"},
	{"ConsumerGroup", kgo.ConsumerGroup, "use Config.Group"},
	{"Balancers", kgo.Balancers, "use Config.Balance"},
	{"ServerSideBalancer", kgo.ServerSideBalancer, "use Config.Balance"},
	{"InstanceID", kgo.InstanceID, "use Config.Instance"},
	{"ShareGroup", kgo.ShareGroup, "share groups keep no order and no positions"},
	{"ConsumeTopics", kgo.ConsumeTopics, "the routes say which topics are read"},
	{"ConsumeRegex", kgo.ConsumeRegex, "the routes say which topics are read"},
	{"ConsumePartitions", kgo.ConsumePartitions, "the group hands out partitions"},
	{"ConsumeStartOffset", kgo.ConsumeStartOffset, "the store says where to start: use pawl.Config.Start"},
	{"ConsumeResetOffset", kgo.ConsumeResetOffset, "a reset skips records without a word"},
	{"AdjustFetchOffsetsFn", kgo.AdjustFetchOffsetsFn, "the store says where to start"},
	{"OnOffsetsFetched", kgo.OnOffsetsFetched, "the store says where to start"},
	{"OnPartitionsAssigned", kgo.OnPartitionsAssigned, "Pawl takes the fence there"},
	{"OnPartitionsRevoked", kgo.OnPartitionsRevoked, "Pawl drains and commits there"},
	{"OnPartitionsLost", kgo.OnPartitionsLost, "Pawl gives up the partition there"},
	{"OnPartitionsCallbackBlocked", kgo.OnPartitionsCallbackBlocked, "rebalances are never blocked"},
	{"BlockRebalanceOnPoll", kgo.BlockRebalanceOnPoll, "rebalances are never blocked"},
	{"DisableAutoCommit", kgo.DisableAutoCommit, "it is always off"},
	{"GreedyAutoCommit", kgo.GreedyAutoCommit, "an offset is committed after its effects, never before"},
	{"AutoCommitMarks", kgo.AutoCommitMarks, "an offset is committed after its effects, never before"},
	{"AutoCommitInterval", kgo.AutoCommitInterval, "use pawl.Config.CommitInterval"},
	{"AutoCommitCallback", kgo.AutoCommitCallback, "an offset is committed after its effects, never before"},
	{"FetchIsolationLevel", kgo.FetchIsolationLevel, "records of aborted transactions must not take effect"},
	{"KeepControlRecords", kgo.KeepControlRecords, "it is always on: progress moves past them"},
	{"KeepRetryableFetchErrors", kgo.KeepRetryableFetchErrors, "errors that pass by themselves must not end Run"},
	{"TransactionalID", kgo.TransactionalID, "effects are committed in the store, not in a Kafka transaction"},
	{"WithContext", kgo.WithContext, "the client must outlive Run's context to leave the group"},
}

// reserved also has the options that say the same as fields that are set.
func (c *Config) reserved() []reservedOption {
	all := slices.Clip(reserved)
	if c.TLS != nil {
		all = append(all,
			reservedOption{"DialTLSConfig", kgo.DialTLSConfig, "Config.TLS is set: use one or the other"},
			reservedOption{"DialTimeout", kgo.DialTimeout, "Config.TLS is set, which has a timeout of its own"},
		)
	}
	if c.SASL != nil {
		all = append(all, reservedOption{"SASL", kgo.SASL, "Config.SASL is set: use one or the other"})
	}
	return all
}

// plainClient makes a client with the user's options and no group, and reports everything that is wrong with the
// configuration.
func (s *Source) plainClient(ctx context.Context) (*kgo.Client, error) {
	var errs []error
	reserved := s.cfg.reserved()
	base := s.cfg.defaults()
	if len(s.cfg.Brokers) == 0 {
		errs = append(errs, errors.New("Config.Brokers is empty"))
	} else {
		base = append(base, kgo.SeedBrokers(s.cfg.Brokers...))
	}
	if s.cfg.Group == "" {
		errs = append(errs, errors.New("Config.Group is empty: it names who shares the partitions and has no default"))
	}
	errs = append(errs, s.cfg.membership()...)
	base = append(base, kgo.Balancers(unset{kgo.CooperativeStickyBalancer()}))
	cl, refused, err := probe(reserved, base, s.cfg.Options)
	made := cl
	if err != nil {
		// Some options are valid only together with a group: they are looked at with one, to be refused by name.
		base = append(base, kgo.ConsumerGroup("pawl"))
		if grouped, r, gerr := probe(reserved, base, s.cfg.Options); gerr == nil {
			grouped.Close()
			made, refused = grouped, r
		}
		if len(refused) == 0 {
			errs = append(errs, err)
		}
	}
	errs = append(errs, refused...)
	errs = append(errs, s.cfg.checkSecurity(ctx, made)...)
	if secure := s.cfg.secure(); len(errs) == 0 && len(secure) > 0 {
		// Only now: had they been among the options from the start, it could not be seen whose they are.
		cl.Close()
		if cl, err = kgo.NewClient(slices.Concat(base, s.cfg.Options, secure)...); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return cl, nil
	}
	if cl != nil {
		cl.Close()
	}
	return nil, &pawl.Error{Op: "configure kafka", Class: pawl.Misconfigured, Err: errors.Join(errs...)}
}

// probe makes a client from base and opts, and names the reserved options that are not as base alone leaves them.
func probe(reserved []reservedOption, base, opts []kgo.Opt) (cl *kgo.Client, refused []error, err error) {
	was, is := &optionValues{of: reserved}, &optionValues{of: reserved}
	plain, err := kgo.NewClient(append(slices.Clip(base), kgo.WithHooks(was))...)
	if err != nil {
		return nil, nil, err
	}
	plain.Close()
	cl, err = kgo.NewClient(slices.Concat(base, opts, []kgo.Opt{kgo.WithHooks(is)})...)
	if err != nil {
		return nil, nil, err
	}
	for i, o := range reserved {
		if !reflect.DeepEqual(was.values[i], is.values[i]) { // functions are equal only if there are none
			refused = append(refused, fmt.Errorf("option kgo.%s is reserved: %s", o.name, o.why))
		}
	}
	return cl, refused, nil
}

// optionValues is a hook that notes the reserved options of a client before the client fills some of them in itself.
type optionValues struct {
	of     []reservedOption
	values [][]any
}

var _ kgo.HookNewClient = (*optionValues)(nil)

// OnNewClient implements kgo.HookNewClient.
func (v *optionValues) OnNewClient(cl *kgo.Client) {
	for _, o := range v.of {
		v.values = append(v.values, cl.OptValues(o.opt))
	}
}
