package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/kafka"
	"github.com/pawlhq/pawl/metrics"
	"github.com/pawlhq/pawl/pipeline"
)

// defaultListen is where health and metrics are to be had: on this machine only, unless someone says otherwise.
const defaultListen = "127.0.0.1:9464"

func (a *app) runCommand() *cobra.Command {
	var listen, level string
	var only []string
	cmd := &cobra.Command{
		Use: "run [FILE|FOLDER…]", Short: "Run pipelines until told to stop",
		Long: `Run pipelines until told to stop. On the first signal reading stops, what is in flight is committed, and the partitions are
given back; a second one ends the process at once. To scale out, run it on several machines: Kafka divides the partitions.

At --listen: /healthz (200 while every pipeline runs), /readyz (200 once all have begun, until they stop), /metrics and
/progress. Logs go to stderr: as JSON, or as text on a terminal.

Once an hour what operators did is sealed, where anything was done: the line "audit sealed" has the hash that pawl audit verify --expect
takes. Any number of processes may do so.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			logger, err := a.logger(level)
			if err != nil {
				return err
			}
			set, err := a.load(args)
			if err != nil {
				return err
			}
			chosen, err := choose(set, only)
			if err != nil {
				return err
			}
			l, err := a.locateFor(cmd.Context(), set)
			if err != nil {
				return err
			}
			s, err := l.open(cmd.Context(), false)
			if err != nil {
				return err
			}
			defer s.close()
			d := &daemon{app: a, store: s, kafka: set.Kafka, pipelines: chosen, logger: logger}
			return d.run(cmd.Context(), listen)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", defaultListen, "where health and metrics are to be had; empty: nowhere")
	cmd.Flags().StringVar(&level, "log-level", "info", "debug, info, warn or error")
	cmd.Flags().StringSliceVar(&only, "only", nil, "only these pipelines, by name")
	complete(cmd, "log-level", "debug", "info", "warn", "error")
	return cmd
}

func (a *app) logger(level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, usage("--log-level %q: it is debug, info, warn or error", level)
	}
	opts := &slog.HandlerOptions{Level: l}
	if isTerminal(a.err) {
		return slog.New(slog.NewTextHandler(a.err, opts)), nil
	}
	return slog.New(slog.NewJSONHandler(a.err, opts)), nil
}

func choose(set *pipeline.Set, only []string) ([]*pipeline.Pipeline, error) {
	if len(only) == 0 {
		return set.Pipelines, nil
	}
	var chosen []*pipeline.Pipeline
	for _, name := range only {
		p := set.Get(name)
		if p == nil {
			return nil, usage("--only: there is no pipeline %q", name)
		}
		chosen = append(chosen, p)
	}
	return chosen, nil
}

// daemon is the pipelines of this process.
type daemon struct {
	app       *app
	store     *storage
	kafka     *pipeline.Kafka
	pipelines []*pipeline.Pipeline
	logger    *slog.Logger
	killed    bool // on purpose, again and again: no record is to blame

	mu       sync.Mutex
	begun    int // pipelines that are reading
	stopping bool
	workers  []worker
}

// worker is a runner, whatever its store.
type worker interface {
	Run(context.Context) error
	Progress() []pawl.LiveProgress
}

// run works until ctx ends or a pipeline cannot go on; then all stop.
func (d *daemon) run(ctx context.Context, listen string) error {
	if d.kafka == nil {
		return usage("the files name no cluster: add kafka: {brokers: […]}")
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, p := range d.pipelines {
		if err := d.add(registry, p); err != nil {
			return err
		}
	}
	if listen != "" {
		stop, err := d.serve(listen, registry)
		if err != nil {
			return err
		}
		defer stop()
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	context.AfterFunc(ctx, func() { d.note(func() { d.stopping = true }) })
	var all sync.WaitGroup
	errs := make([]error, len(d.workers))
	for i, w := range d.workers {
		all.Go(func() {
			if err := w.Run(ctx); err != nil {
				errs[i] = fmt.Errorf("pipeline %s: %w", d.pipelines[i].Name, err)
				d.logger.Error("pipeline ended: the others are stopped too", "pipeline", d.pipelines[i].Name, "error", err)
				fail(errs[i])
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	d.logger.Info("stopped in good order")
	return nil
}

func (d *daemon) note(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

func (d *daemon) add(registry *prometheus.Registry, p *pipeline.Pipeline) error {
	logger := d.logger.With("pipeline", p.Name)
	m, err := metrics.New(registry, metrics.Config{Consumer: p.ConsumerName()})
	if err != nil {
		return err
	}
	cfg := p.Config()
	cfg.Logger, cfg.Version, cfg.Hooks = logger, versionText(), m.Hooks()
	if d.killed {
		cfg.MaxDeaths, cfg.CommitInterval = -1, 50*time.Millisecond // often, so that an offset that leads is seen
	}
	src := d.kafka.Source(p)
	src.Logger = logger
	w := d.store.work(p, &begins{Source: kafka.New(src), then: func() { d.note(func() { d.begun++ }) }}, cfg)
	m.Watch(w)
	m.WatchStore(d.store.admin)
	d.workers = append(d.workers, w)
	return nil
}

// begins tells when a source is about to be read: the store is open and everything was found sound.
type begins struct {
	pawl.Source
	then func()
}

func (b *begins) Run(ctx context.Context, topics []string, in pawl.Intake) error {
	b.then()
	return b.Source.Run(ctx, topics, in)
}

// serve answers probes and scrapes until stop is called.
func (d *daemon) serve(listen string, registry *prometheus.Registry) (stop func(), err error) {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, &exitError{exitUsage, fmt.Errorf("--listen %s: %w", listen, err)}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", d.ready)
	mux.HandleFunc("GET /progress", d.progress)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(d.logger.Handler(), slog.LevelWarn)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			d.logger.Error("health and metrics are no longer served", "error", err)
		}
	}()
	d.logger.Info("listening", "address", listener.Addr().String())
	return func() {
		server.Close()
		<-served
	}, nil
}

func (d *daemon) ready(w http.ResponseWriter, _ *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.stopping:
		http.Error(w, "stopping", http.StatusServiceUnavailable)
	case d.begun < len(d.workers):
		http.Error(w, fmt.Sprintf("%d of %d pipelines have begun", d.begun, len(d.workers)), http.StatusServiceUnavailable)
	default:
		fmt.Fprintln(w, "ok")
	}
}

type liveView struct {
	Pipeline  string `json:"pipeline"`
	Consumer  string `json:"consumer"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	End       int64  `json:"end"`
	Received  int64  `json:"received"`
	Settled   int64  `json:"settled"`
	Committed int64  `json:"committed"`
	Unsettled int    `json:"unsettled"`
	Halted    bool   `json:"halted"`
}

// progress is what this process has in hand, which the store does not know.
func (d *daemon) progress(w http.ResponseWriter, _ *http.Request) {
	l := listing[liveView]{kind: "LivePartition"}
	for i, worker := range d.workers {
		for _, p := range worker.Progress() {
			l.items = append(l.items, liveView{
				d.pipelines[i].Name, d.pipelines[i].ConsumerName(), p.Partition.Topic, p.Partition.Index, p.End, p.Received, p.Next, p.Committed,
				p.Unsettled, p.Halted,
			})
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if err := printList(&app{out: w, err: w, format: formatJSON}, l); err != nil {
		d.logger.Warn("progress not written", "error", err)
	}
}

// versionText names this program in the evidence.
func versionText() string {
	v := buildVersion()
	return strings.TrimSuffix(v.Version+"+"+v.Revision[:min(12, len(v.Revision))], "+")
}
