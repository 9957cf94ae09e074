package pawl

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Config is how a Runner works. The zero value of every field but Consumer is a good default.
type Config struct {
	// Consumer names what "once" means together with a route's name: claims are kept per (consumer, route, key). It is
	// identity, not a label: under another name everything takes effect again. Required.
	Consumer string

	// Start is where a partition begins that the store has no position for. Default: StartEarliest.
	Start Start

	// Reset is what to do when someone has changed the group's committed offset from outside. Default: ResetHalt.
	Reset Reset

	// Recreated is what to do with a topic that was deleted and made again. Default: RecreatedHalt.
	Recreated Recreated

	// Workers is how many batches are in the database at once, over all partitions. Default: twice the CPUs, at most 16.
	Workers int

	// MaxBatch is the most records in one transaction. Batches are as large as what is waiting, up to this. Default: 2000.
	MaxBatch int

	// BatchTime is how long a transaction should take at most; batches shrink until they do. Default: 250 ms.
	BatchTime time.Duration

	// HandlerTimeout bounds one call of a handler: its context ends then. Default: 30 s.
	HandlerTimeout time.Duration

	// MaxTries is how often a record that fails for an unknown reason is tried before it is quarantined. Default: 5.
	MaxTries int

	// MaxDeaths is after how many deaths of the process in a row, at the same record, that record is quarantined; from the third
	// on, records are tried one at a time. At least 3; -1: never. A process that is often killed from outside takes more.
	// Default: 3.
	MaxDeaths int

	// OnPoison is what to do with a record that can never take effect as it is. Default: PoisonQuarantine.
	OnPoison OnPoison

	// Budget bounds how much is quarantined before the consumer stops and asks.
	Budget Budget

	// MaxHeld bounds how many records are held behind blocked streams, over all partitions: beyond it, partitions wait in front
	// of the next one. It is looked at once a second. Default: 100,000.
	MaxHeld int

	// Classify says what an error of a handler means, where the caller knows better than Pawl; Unknown leaves it to Pawl.
	// Default: none.
	Classify func(error) Class

	// MaxBuffered bounds the bytes of records waiting in memory, over all partitions. Default: 24 MiB.
	MaxBuffered int

	// CommitInterval is how often offsets are committed to the source. Default: 1 s.
	CommitInterval time.Duration

	// SealInterval is how often what operators did is sealed, where anything was done: see [Admin.SealAudit]. The first time is a
	// minute after the start. The hash of a seal is in the log line "audit sealed": kept where the database's owner cannot write,
	// it tells later whether anything before it was rewritten. -1: never. Default: 1 h.
	SealInterval time.Duration

	// ShutdownTimeout bounds the wait for work in flight when the runner stops or loses a partition. Default: 10 s.
	ShutdownTimeout time.Duration

	// Version names the code in the evidence. Default: the main module's version and revision.
	Version string

	// Logger gets what an operator should know. Default: slog.Default().
	Logger *slog.Logger

	// Hooks observe; they decide nothing.
	Hooks Hooks

	// Now is the clock that rows are dated by. Default: time.Now.
	Now func() time.Time
}

// Start says where a partition begins that the store has no position for. The position is durable before the first record
// is read, and from then on the store's alone.
type Start uint8

const (
	// StartEarliest begins with the first record of the log. If the group has committed an offset all the same, then someone
	// has consumed this partition without this store: it is halted in StateNoPosition, rather than repeat or skip their work.
	StartEarliest Start = iota
	// StartCommitted goes on from the offset that the group has committed, for moving a consumer to Pawl; without one, it is
	// StartEarliest. While it is set, a commit that is not Pawl's and behind the store is taken for the former consumer's, and
	// not for a reset.
	StartCommitted
)

// Reset says what to do when the group's committed offset is not Pawl's and differs from the store's position: someone
// has reset it.
type Reset uint8

const (
	// ResetHalt halts the partition in StateOffsetReset: a person decides.
	ResetHalt Reset = iota
	// ResetRefuse goes on from the store's position; the group's offset will follow it.
	ResetRefuse
	// ResetAccept moves to the offset that was set. Going back, records are read again, and those that took effect are
	// duplicates; going forward, the records in between are never read.
	ResetAccept
)

// Recreated says what to do when a topic has another id than the one of the same name that was read before.
type Recreated uint8

const (
	// RecreatedHalt halts its partitions in StateRecreated: a person decides.
	RecreatedHalt Recreated = iota
	// RecreatedAccept begins with the first record of the new topic. Keys that took effect before are duplicates there too.
	RecreatedAccept
)

// OnPoison says what becomes of a record that can never take effect as it is.
type OnPoison uint8

const (
	// PoisonQuarantine sets it aside, and goes on.
	PoisonQuarantine OnPoison = iota
	// PoisonStop latches the consumer in StatePoison, in front of it.
	PoisonStop
)

// withDefaults returns a copy with every field set.
func (c Config) withDefaults() Config {
	def := func(n *int, d int) {
		if *n == 0 {
			*n = d
		}
	}
	defTime := func(n *time.Duration, d time.Duration) {
		if *n == 0 {
			*n = d
		}
	}
	def(&c.Workers, min(2*runtime.GOMAXPROCS(0), 16))
	def(&c.MaxBatch, 2000)
	def(&c.MaxTries, 5)
	def(&c.MaxBuffered, 24<<20)
	def(&c.MaxDeaths, 3)
	def(&c.MaxHeld, 100_000)
	def(&c.Budget.Records, 1000)
	defTime(&c.Budget.Window, time.Minute)
	if c.Budget.Share == 0 {
		c.Budget.Share = 0.5
	}
	defTime(&c.BatchTime, 250*time.Millisecond)
	defTime(&c.HandlerTimeout, 30*time.Second)
	defTime(&c.CommitInterval, time.Second)
	defTime(&c.SealInterval, time.Hour)
	defTime(&c.ShutdownTimeout, 10*time.Second)
	if c.Version == "" {
		c.Version = buildVersion()
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Logger = c.Logger.With("consumer", c.Consumer)
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// validate reports everything that is wrong at once.
func (c *Config) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Consumer == "" {
		bad("Config.Consumer is empty: it names the scope of \"once\" and has no default")
	}
	if err := validName(c.Consumer); c.Consumer != "" && err != nil {
		bad("Config.Consumer %q: %w", c.Consumer, err)
	}
	if c.Start > StartCommitted {
		bad("Config.Start is %d, which is no Start", c.Start)
	}
	if c.Reset > ResetAccept {
		bad("Config.Reset is %d, which is no Reset", c.Reset)
	}
	if c.Recreated > RecreatedAccept {
		bad("Config.Recreated is %d, which is no Recreated", c.Recreated)
	}
	if c.MaxDeaths != -1 && c.MaxDeaths < 3 {
		bad("Config.MaxDeaths is %d: it is at least 3, or -1 for never", c.MaxDeaths)
	}
	if c.SealInterval < time.Second && c.SealInterval != -1 {
		bad("Config.SealInterval is %s: it is a second at least, or -1 for never", c.SealInterval)
	}
	if c.OnPoison > PoisonStop {
		bad("Config.OnPoison is %d, which is none", c.OnPoison)
	}
	if c.Budget.Share < 0 || c.Budget.Share > 1 {
		bad("Config.Budget.Share is %g: it is from 0 to 1", c.Budget.Share)
	}
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"Workers", int64(c.Workers)}, {"MaxBatch", int64(c.MaxBatch)}, {"MaxTries", int64(c.MaxTries)},
		{"Budget.Records", int64(c.Budget.Records)}, {"Budget.Window", int64(c.Budget.Window)}, {"MaxHeld", int64(c.MaxHeld)},
		{"MaxBuffered", int64(c.MaxBuffered)}, {"BatchTime", int64(c.BatchTime)}, {"HandlerTimeout", int64(c.HandlerTimeout)},
		{"CommitInterval", int64(c.CommitInterval)}, {"ShutdownTimeout", int64(c.ShutdownTimeout)},
	} {
		if n.value < 0 {
			bad("Config.%s is negative", n.name)
		}
	}
	return errors.Join(errs...)
}

// validName accepts what is safe to print, to store and to use as a label: names are identities that people type.
func validName(s string) error {
	if len(s) > 200 {
		return fmt.Errorf("%d characters long; at most 200", len(s))
	}
	for _, c := range s {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_.:/", c) {
			continue
		}
		return fmt.Errorf("character %q; use letters, digits and - _ . : /", c)
	}
	return nil
}

func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			v += "+" + s.Value[:12]
		}
	}
	if v == "" {
		return "unknown"
	}
	return v
}
