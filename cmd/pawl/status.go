package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl"
)

// State words, worst first.
const (
	stateLatched    = "latched"
	stateHalted     = "halted"
	stateStalled    = "stalled"
	stateStopped    = "stopped"
	statePaused     = "paused"
	stateCatchingUp = "catching_up"
	stateRunning    = "running"
)

var stateWords = []string{stateLatched, stateHalted, stateStalled, stateStopped, statePaused, stateCatchingUp, stateRunning}

const (
	// stallAfter is how long a partition with records may stand still before it is called stalled.
	stallAfter = 5 * time.Minute
	// behindAfter is the age of the oldest record that is not settled from which a partition is called catching up.
	behindAfter = 10 * time.Second
	// lookTimeout bounds asking the cluster, and ageTimeout reading how old records are: status is for the hurried.
	lookTimeout = 10 * time.Second
	ageTimeout  = time.Second
)

type statusView struct {
	Consumers []consumerStatus `json:"consumers"`
}

type consumerStatus struct {
	Name           string            `json:"name"`
	Group          string            `json:"group"`
	Cluster        string            `json:"cluster"`
	State          string            `json:"state"`
	Reason         string            `json:"reason,omitempty"`
	Paused         *pauseView        `json:"paused,omitempty"`
	Quarantined    int               `json:"quarantined"`
	BlockedStreams int               `json:"blockedStreams"`
	Conditions     []conditionView   `json:"conditions"`
	Partitions     []partitionStatus `json:"partitions"`
}

type partitionStatus struct {
	Consumer   string     `json:"consumer"`
	Topic      string     `json:"topic"`
	Partition  int32      `json:"partition"`
	State      string     `json:"state"`
	Reason     string     `json:"reason,omitempty"`
	End        *int64     `json:"end"`      // null: the cluster was not asked
	Received   *int64     `json:"received"` // when something was last settled; null: it was never read
	Settled    *int64     `json:"settled"`
	Committed  *int64     `json:"committed"`
	LagRecords *int64     `json:"lagRecords"`
	LagSeconds *float64   `json:"lagSeconds"`
	Owner      string     `json:"owner,omitempty"`
	Crashes    int        `json:"crashes"`
	AdvancedAt *time.Time `json:"advancedAt,omitempty"`
}

func (a *app) statusCommand() *cobra.Command {
	var name string
	var brokers []string
	cmd := &cobra.Command{
		Use: "status", Short: "How far each consumer is with each partition, and what is the matter", Args: cobra.NoArgs,
		Long: `How far each consumer is with each partition, and what is the matter.

It reads the store. Where a cluster is named, by --brokers, PAWL_BROKERS or a pipeline file, that is asked too: then the ends of the
logs, what the group has committed, who owns a partition and the lag are known.

Offsets: end, after the last record that can be read; received, how far the owner had read when it last settled something (what it has
in hand now is at /progress of the process); settled, everything below it is in the store; committed, with the group.

States: ` + strings.Join(stateWords, ", ") + `.
  latched      nothing is settled until someone has answered (pawl resolve)
  halted       this partition is not read until someone has answered
  stalled      there are records, and nothing was settled for ` + stallAfter.String() + `
  stopped      no process has it
  paused       an operator wants it so (pawl resume)
  catching_up  the oldest record that is not settled is older than ` + behindAfter.String() + `
  running      as it should be`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cluster, err := a.cluster(brokers)
			if err != nil {
				return err
			}
			return a.withStore(cmd.Context(), func(ctx context.Context, s *storage) error {
				of, err := consumers(ctx, s, name)
				if err != nil {
					return err
				}
				v, err := a.status(ctx, s, of, cluster)
				if err != nil {
					return err
				}
				return a.printStatus(v)
			})
		},
	}
	a.consumerFlag(cmd, &name, anyConsumer)
	cmd.Flags().StringSliceVar(&brokers, "brokers", nil, "addresses of the cluster, host:port; otherwise PAWL_BROKERS, otherwise those of the pipeline file")
	return cmd
}

// status asks the store about one consumer after the other, and then the cluster about all at once: its answers come from afar.
func (a *app) status(ctx context.Context, s *storage, of []pawl.BoundConsumer, from *cluster) (*statusView, error) {
	known := make([]known, len(of))
	for i := range of {
		if err := known[i].read(ctx, s, of[i].Name); err != nil {
			return nil, err
		}
	}
	seen, errs := make([]*clusterView, len(of)), make([]error, len(of))
	var asked sync.WaitGroup
	for i := range of {
		seen[i] = &clusterView{}
		if from != nil {
			asked.Go(func() { seen[i], errs[i] = lookAt(ctx, from, of[i].Group, known[i].progress) })
		}
	}
	asked.Wait()
	v := &statusView{Consumers: []consumerStatus{}}
	for i := range of {
		if errs[i] != nil && from.asked {
			return nil, errs[i]
		}
		if errs[i] != nil {
			a.note("the cluster does not answer, and what only it knows is left out: %s", printable(errs[i].Error()))
			seen[i] = &clusterView{}
		}
		v.Consumers = append(v.Consumers, a.consumerStatus(&of[i], &known[i], seen[i]))
	}
	return v, nil
}

// known is what the store says of a consumer.
type known struct {
	progress []pawl.PartitionProgress
	open     []pawl.OpenCondition
	waiting  pawl.Waiting
}

func (k *known) read(ctx context.Context, s *storage, consumer string) (err error) {
	if k.progress, err = s.admin.Progress(ctx, consumer); err != nil {
		return err
	}
	if k.open, err = s.admin.Conditions(ctx, consumer); err != nil {
		return err
	}
	k.waiting, err = s.admin.Waiting(ctx, consumer)
	return err
}

func (a *app) consumerStatus(of *pawl.BoundConsumer, k *known, seen *clusterView) consumerStatus {
	c := consumerStatus{
		Name: of.Name, Group: of.Group, Cluster: of.Cluster, Paused: a.pauseView(of.Paused),
		Quarantined: k.waiting.Quarantined, BlockedStreams: k.waiting.BlockedStreams,
		Conditions: []conditionView{}, Partitions: []partitionStatus{},
	}
	for i := range k.open {
		c.Conditions = append(c.Conditions, a.conditionView(of.Name, &k.open[i]))
	}
	for _, p := range seen.join(k.progress) {
		v := a.partition(of, &p)
		v.State, v.Reason = judge(of, k.open, &p, a.now())
		c.Partitions = append(c.Partitions, v)
	}
	c.State, c.Reason = c.worst()
	return c
}

func (a *app) partition(of *pawl.BoundConsumer, p *standing) partitionStatus {
	v := partitionStatus{Consumer: of.Name, Topic: p.Topic, Partition: p.Index}
	if p.stored != nil {
		v.Received, v.Settled = &p.stored.Received, &p.stored.Next
		v.Crashes, v.AdvancedAt = p.stored.Crashes, a.stamp(p.stored.AdvancedAt)
	}
	if p.log != nil {
		v.End, v.Owner = &p.log.End, p.log.Owner
		if p.log.Committed >= 0 {
			v.Committed = &p.log.Committed
		}
	}
	if lag, known := p.lag(); known {
		v.LagRecords = &lag
		switch {
		case lag == 0:
			v.LagSeconds = new(float64)
		case !p.oldest.IsZero():
			seconds := max(a.now().Sub(p.oldest), 0).Round(time.Millisecond).Seconds()
			v.LagSeconds = &seconds
		}
	}
	return v
}

// worst is the state of a consumer: that of the partition that is worst off.
func (c *consumerStatus) worst() (word, why string) {
	if len(c.Partitions) == 0 {
		for _, o := range c.Conditions {
			if o.Halts {
				return stateLatched, fmt.Sprintf("%s (condition %d): %s", o.State, o.ID, o.Reason)
			}
		}
		return stateStopped, "it has read nothing yet"
	}
	worst := slices.MinFunc(c.Partitions, func(a, b partitionStatus) int {
		return cmp.Compare(slices.Index(stateWords, a.State), slices.Index(stateWords, b.State))
	})
	return worst.State, worst.Reason
}

func (a *app) printStatus(v *statusView) error {
	if a.format == formatJSON || a.format == formatYAML {
		return a.printDocument("Status", v)
	}
	l := listing[partitionStatus]{kind: "PartitionStatus", columns: a.statusColumns(), empty: "no partition was read yet"}
	for _, c := range v.Consumers {
		l.items = append(l.items, c.Partitions...)
	}
	if err := printList(a, l); err != nil || a.format != formatTable {
		return err
	}
	for _, c := range v.Consumers {
		a.writeMatters(a.out, &c)
	}
	return nil
}

// writeMatters says below the table what needs someone.
func (a *app) writeMatters(w io.Writer, c *consumerStatus) {
	if c.Quarantined > 0 {
		fmt.Fprintf(w, "\n%s: %s in quarantine, %s blocked: pawl quarantine list --groups --consumer %s\n", c.Name,
			plural(c.Quarantined, "record"), plural(c.BlockedStreams, "stream"), c.Name)
	}
	for i := range c.Conditions {
		o := &c.Conditions[i]
		fmt.Fprintf(w, "\n%s: condition %d, %s of %s, since %s: %s\n", c.Name, o.ID, o.State, o.where(), a.at(*o.Since), printable(o.Reason))
		if o.Hint != "" {
			fmt.Fprintf(w, "  %s\n", printable(o.Hint))
		}
		if o.Answer == nil && o.Halts {
			fmt.Fprintf(w, "  pawl resolve %d\n", o.ID)
		}
	}
}

func (a *app) statusColumns() []column[partitionStatus] {
	number := func(of func(partitionStatus) *int64) func(partitionStatus) string {
		return func(p partitionStatus) string {
			if n := of(p); n != nil {
				return fmt.Sprint(*n)
			}
			return unknown
		}
	}
	return []column[partitionStatus]{
		{name: "consumer", of: func(p partitionStatus) string { return p.Consumer }},
		{name: "partition", of: func(p partitionStatus) string { return fmt.Sprintf("%s/%d", p.Topic, p.Partition) }},
		{name: "state", of: func(p partitionStatus) string { return p.State }, color: func(p partitionStatus) string {
			switch p.State {
			case stateRunning:
				return green
			case statePaused, stateCatchingUp, stateStopped:
				return yellow
			}
			return red
		}},
		{name: "end", of: number(func(p partitionStatus) *int64 { return p.End })},
		{name: "received", of: number(func(p partitionStatus) *int64 { return p.Received })},
		{name: "settled", of: number(func(p partitionStatus) *int64 { return p.Settled })},
		{name: "committed", of: number(func(p partitionStatus) *int64 { return p.Committed })},
		{name: "lag", of: number(func(p partitionStatus) *int64 { return p.LagRecords })},
		{name: "lag seconds", of: func(p partitionStatus) string {
			if p.LagSeconds == nil {
				return unknown
			}
			return fmt.Sprintf("%.3g", *p.LagSeconds)
		}},
		{name: "owner", of: func(p partitionStatus) string { return p.Owner }},
		{name: "reason", of: func(p partitionStatus) string { return p.Reason }},
	}
}

// unknown stands in tables for what was not asked or is not known.
const unknown = "?"
