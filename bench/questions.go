package main

import (
	"bytes"
	"context"
	"crypto/md5"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl/sqlite"
)

// The bars of -questions: how long people wait for an answer, the start of the process included.
const (
	mostExplain = 100 * time.Millisecond
	mostStatus  = 300 * time.Millisecond
	mostTest    = 2 * time.Second
)

const (
	asks     = 20 // times that each question is asked
	askers   = 8  // consumers, each with a topic of its own
	perAsker = 8  // its partitions
	waiting  = 10 // records a partition that are not settled
	aside    = 100_000
	blocked  = 10_000
	hotShare = 10 // every so many decisions are of one stream
)

// The history that is asked about. Every tenth decision is of the stream HOT; every hundredth changed nothing. Some events have an
// id beside their key. Parameters: decisions, streams, consumers, partitions each, records set aside, streams blocked.

// startHistory is the same on both stores.
const startHistory = `
insert into pawl_name (name) values ('v1'), ('PAID');
with recursive n (c) as (select 1 union all select c + 1 from n where c < %[3]d)
insert into pawl_consumer (name, cluster, group_name, created_at) select 'asker-' || c, 'bench', 'asker-' || c, %[7]s from n;
insert into pawl_scope (consumer_id, route, created_at) select id, 'main', %[7]s from pawl_consumer`

const historyPostgres = `
insert into pawl_progress (consumer_id, topic_id, partition, topic, next_offset, received_offset, epoch, owner, created_at, acquired_at, advanced_at)
select c, md5('topic' || c)::uuid, p, 'asker-' || c, %[8]d, %[8]d, 1, 'bench', now(), now(), now()
from generate_series(1, %[3]d) as c, generate_series(0, %[4]d - 1) as p;
` + indexesApart + `insert into pawl_decision (
    key_id, fingerprint, position_offset, version, version_before, occurred_at, ingested_at, processed_at, scope_id, progress_id,
    type_id, code_id, key_form, outcome, mode, stream, event_id)
select (lpad(to_hex((extract(epoch from timestamptz '2020-01-01') * 1000)::bigint + g), 12, '0') || '70008' || substr(md5(g::text), 1, 15))::uuid,
       md5(g::text)::uuid, g, g / %[9]d + 1, g / %[9]d, now(), now(), timestamptz '2026-01-01' + g / 100 * interval '100 ms',
       g %% %[3]d + 1, g %% (%[3]d * %[4]d) + 1, 2, 1, 1, case when g %% 100 = 0 then 4 else 1 end, 1,
       case when g %% %[9]d = 0 then 'HOT' else 'CASE-' || ((g * 2654435761) %% %[2]d) end, case when g %% 10 = 1 then 'event-' || g end
from generate_series(1::bigint, %[1]d) as g;
` + indexesBack + `;
insert into pawl_quarantine (
    scope_id, progress_id, position_offset, leader_epoch, cause, reason, tries, blocks, mode, code_id, key_form, key_id, stream, value, ingested_at,
    quarantined_at)
select g %% %[3]d + 1, g %% (%[3]d * %[4]d) + 1, -g, 1, 'failure', 'no answer from the register: ' || g, 3, true, 1, 1, 1, md5('q' || g)::uuid,
       'ASIDE-' || (g %% %[6]d), convert_to(repeat('x', 300), 'UTF8'), now(), timestamptz '2026-01-01'
from generate_series(1, %[5]d) as g;
insert into pawl_redelivery (scope_id, progress_id, position_offset, outcome, key_form, key_id, fingerprint, mode, code_id, ingested_at, processed_at, reason)
select scope_id, progress_id, position_offset, 7, key_form, key_id, key_id, 1, 1, now(), quarantined_at, reason
from pawl_quarantine;
insert into pawl_stream (scope_id, stream, blocked_by, since)
select scope_id, stream, min(id), now() from pawl_quarantine group by scope_id, stream`

const historySQLite = `
with recursive c (c) as (select 1 union all select c + 1 from c where c < %[3]d), p (p) as (select 0 union all select p + 1 from p where p < %[4]d - 1)
insert into pawl_progress (consumer_id, topic_id, partition, topic, next_offset, received_offset, epoch, owner, created_at, acquired_at, advanced_at)
select c, zeroblob(16), p, 'asker-' || c, %[8]d, %[8]d, 1, 'bench', 0, 0, 0 from c, p order by c, p;
drop index pawl_decision_stream;
drop index pawl_decision_event;
with recursive n (g) as (select 1 union all select g + 1 from n where g < %[1]d)
insert into pawl_decision (
    key_id, fingerprint, position_offset, version, version_before, occurred_at, ingested_at, processed_at, scope_id, progress_id,
    type_id, code_id, key_form, outcome, mode, stream, event_id)
select unhex(printf('%%012x', 1577836800000 + g) || '70008' || printf('%%015x', g * 2654435761)), zeroblob(16), g, g / %[9]d + 1, g / %[9]d, 0, 0,
       1767225600000000 + g / 100 * 100000, g %% %[3]d + 1, g %% (%[3]d * %[4]d) + 1, 2, 1, 1, case when g %% 100 = 0 then 4 else 1 end, 1,
       case when g %% %[9]d = 0 then 'HOT' else 'CASE-' || ((g * 2654435761) %% %[2]d) end, case when g %% 10 = 1 then 'event-' || g end
from n;
create index pawl_decision_stream on pawl_decision (stream, scope_id, processed_at) where stream is not null;
create index pawl_decision_event on pawl_decision (event_id) where event_id is not null;
with recursive n (g) as (select 1 union all select g + 1 from n where g < %[5]d)
insert into pawl_quarantine (
    scope_id, progress_id, position_offset, leader_epoch, cause, reason, tries, blocks, mode, code_id, key_form, key_id, stream, value, ingested_at,
    quarantined_at)
select g %% %[3]d + 1, g %% (%[3]d * %[4]d) + 1, -g, 1, 'failure', 'no answer from the register: ' || g, 3, 1, 1, 1, 1,
       unhex(printf('%%032x', g)), 'ASIDE-' || (g %% %[6]d), zeroblob(300), 0, 0
from n;
insert into pawl_redelivery (scope_id, progress_id, position_offset, outcome, key_form, key_id, fingerprint, mode, code_id, ingested_at, processed_at, reason)
select scope_id, progress_id, position_offset, 7, key_form, key_id, key_id, 1, 1, 0, 0, reason
from pawl_quarantine;
insert into pawl_stream (scope_id, stream, blocked_by, since)
select scope_id, stream, min(id), 0 from pawl_quarantine group by scope_id, stream`

// history is a text above with its parameters.
func historyOf(text, now string, n int) string {
	return fmt.Sprintf(text, n, max(n/20, 1), askers, perAsker, min(aside, n), min(blocked, n), now, waiting, hotShare)
}

// question is a command line, and how long it may take.
type question struct {
	name string
	args []string
	most time.Duration
	dir  string // where it runs
}

// questions asks the program, as people do: each time a process of its own, against a store that holds n decisions.
func (b *bench) questions(ctx context.Context, n int) error {
	dir, err := os.MkdirTemp("", "pawl-questions-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "pawl")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/pawl")
	build.Dir, build.Stderr = "..", os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build pawl: %w", err)
	}
	brokers := b.broker.addrs
	kind := "the embedded broker"
	if given := os.Getenv("PAWL_TEST_KAFKA"); given != "" {
		brokers, kind = strings.Split(given, ","), "Kafka"
	}
	began := time.Now()
	store := b.server.url
	if b.sqlite {
		store = "sqlite:" + filepath.Join(dir, "pawl.db")
		err = seedSQLite(ctx, filepath.Join(dir, "pawl.db"), n)
	} else {
		err = b.seedPostgres(ctx, n)
	}
	if err != nil {
		return fmt.Errorf("make a history: %w", err)
	}
	topics, err := newLogs(ctx, brokers)
	if err != nil {
		return err
	}
	defer topics.drop(context.WithoutCancel(ctx))
	if err := topics.adopt(ctx, b, dir); err != nil {
		return err
	}
	fmt.Printf("\n%s decisions, %s of them of one stream; %s records set aside, %s streams blocked\n", thousands(float64(n)),
		thousands(float64(n/hotShare)), thousands(float64(min(aside, n))), thousands(float64(min(blocked, n))))
	fmt.Printf("%d consumers with %d partitions on %s, %d records behind in each (made in %s)\n\n", askers, askers*perAsker, kind, waiting,
		time.Since(began).Round(time.Second))

	owner := func(g int) string { return fmt.Sprintf("asker-%d", g%askers+1) }
	at := n/20*10 + 1 // of the decisions, one in the middle
	moment := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(n*3/4/100) * 100 * time.Millisecond).Format(time.RFC3339)
	var all []question
	for _, of := range []struct{ name, what, consumer string }{
		{"a stream", fmt.Sprintf("CASE-%d", at*2654435761%max(n/20, 1)), owner(at)}, {"the hot stream", "HOT", owner(hotShare)},
		{"a blocked stream", "ASIDE-7", owner(7)}, {"an event id", fmt.Sprintf("event-%d", at), owner(at)}, {"a key", keyOf(at, b.sqlite), owner(at)},
	} {
		for _, more := range []struct {
			name string
			args []string
		}{
			{"", nil}, {", one consumer", []string{"--consumer", of.consumer}}, {", as of a moment", []string{"--as-of", moment}},
			{", both", []string{"--consumer", of.consumer, "--as-of", moment}},
		} {
			all = append(all, question{"explain " + of.name + more.name, append([]string{"explain", of.what, "--store", store}, more.args...), mostExplain, dir})
		}
	}
	all = append(all,
		question{"status, of the store", []string{"status", "--store", store}, mostStatus, dir},
		question{"status, with the cluster", []string{"status", "--store", store, "--brokers", strings.Join(brokers, ",")}, mostStatus, dir},
	)
	return askAll(ctx, program, all)
}

// askAll prints how long each took, and whether the bars are reached.
func askAll(ctx context.Context, program string, all []question) error {
	examples, err := filepath.Glob("../examples/*/pipeline.yaml")
	if err != nil || len(examples) == 0 {
		return fmt.Errorf("no examples with fixtures: %w", err)
	}
	all = append(all, question{fmt.Sprintf("test, the %d examples", len(examples)), append([]string{"test"}, examples...), mostTest, "."})
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "question\tmedian\tslowest of %d\tits CPU\tbar\t\t\n", asks)
	slowest := map[time.Duration]time.Duration{}
	line := func(name string, took, cpu []time.Duration, most time.Duration) {
		slices.Sort(took)
		slices.Sort(cpu)
		mid := took[len(took)/2]
		slowest[most] = max(slowest[most], mid)
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t\n", name, mid.Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond),
			cpu[len(cpu)/2].Round(time.Millisecond), most, reached(mid <= most))
	}
	for _, q := range all {
		took, cpu := make([]time.Duration, asks), make([]time.Duration, asks)
		for i := range took {
			if took[i], cpu[i], err = ask(ctx, program, q.dir, q.args...); err != nil {
				return err
			}
		}
		line(q.name, took, cpu, q.most)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Printf("\nbar explain %s, status %s, test %s: the slowest medians are %s, %s, %s, %s\n", mostExplain, mostStatus, mostTest,
		slowest[mostExplain].Round(time.Millisecond), slowest[mostStatus].Round(time.Millisecond), slowest[mostTest].Round(time.Millisecond),
		reached(slowest[mostExplain] <= mostExplain && slowest[mostStatus] <= mostStatus && slowest[mostTest] <= mostTest))
	return nil
}

// ask runs the program once: how long it took, and how much CPU of its own, which a busy machine changes less.
func ask(ctx context.Context, program, dir string, args ...string) (took, cpu time.Duration, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	cmd.Env = append(os.Environ(), "PAWL_BROKERS=", "PAWL_STORE=")
	began := time.Now()
	err = cmd.Run()
	took = time.Since(began)
	if err != nil || out.Len() == 0 {
		return 0, 0, fmt.Errorf("pawl %s: %w: %s", strings.Join(args, " "), err, errs.String())
	}
	return took, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// keyOf is the key of decision g.
func keyOf(g int, inSQLite bool) string {
	head := fmt.Sprintf("%012x", 1577836800000+g)
	tail := fmt.Sprintf("%015x", g*2654435761)
	if !inSQLite {
		tail = fmt.Sprintf("%x", md5.Sum([]byte(fmt.Sprint(g))))[:15]
	}
	all := head + "70008" + tail
	return strings.Join([]string{all[:8], all[8:12], all[12:16], all[16:20], all[20:]}, "-")
}

func (b *bench) seedPostgres(ctx context.Context, n int) error {
	if err := b.server.reset(ctx); err != nil {
		return err
	}
	for _, text := range []string{historyOf(startHistory, "now()", n), historyOf(historyPostgres, "now()", n), "vacuum analyze", "checkpoint"} {
		if err := b.server.script(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

func seedSQLite(ctx context.Context, path string, n int) error {
	s, err := sqlite.Open(ctx, path)
	if err != nil {
		return err
	}
	if err := errors.Join(s.Migrate(ctx), s.Close()); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=synchronous(off)&_pragma=cache_size(-500000)&_pragma=temp_store(memory)")
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, text := range []string{historyOf(startHistory, "0", n), historyOf(historySQLite, "0", n), "analyze"} {
		if _, err := db.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// logs are the topics that are asked about.
type logs struct {
	client *kgo.Client
	admin  *kadm.Client
	prefix string
	ids    map[string]kadm.TopicID // by topic
}

// newLogs makes a topic for each consumer, with records, and what its group would have committed.
func newLogs(ctx context.Context, brokers []string) (*logs, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return nil, err
	}
	l := &logs{client: cl, admin: kadm.NewClient(cl), prefix: fmt.Sprintf("asked-%d-", time.Now().UnixNano()), ids: map[string]kadm.TopicID{}}
	for i := range askers {
		topic := l.topic(i)
		if _, err := l.admin.CreateTopic(ctx, perAsker, 1, nil, topic); err != nil {
			return nil, fmt.Errorf("create topic %s: %w", topic, err)
		}
		var records []*kgo.Record
		offsets := kadm.Offsets{}
		for p := range int32(perAsker) {
			for range 2 * waiting {
				records = append(records, &kgo.Record{Topic: topic, Partition: p, Value: []byte(`{"id":"x"}`)})
			}
			offsets.AddOffset(topic, p, waiting, -1)
		}
		if err := cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return nil, fmt.Errorf("produce to %s: %w", topic, err)
		}
		if err := l.admin.CommitAllOffsets(ctx, l.group(i), offsets); err != nil {
			return nil, fmt.Errorf("commit offsets of %s: %w", l.group(i), err)
		}
	}
	found, err := l.admin.ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	for name, t := range found {
		l.ids[name] = t.ID
	}
	return l, nil
}

func (l *logs) topic(i int) string { return fmt.Sprintf("%s%d", l.prefix, i+1) }
func (l *logs) group(i int) string { return l.topic(i) }

// adopt has the store speak of these topics and groups.
func (l *logs) adopt(ctx context.Context, b *bench, dir string) error {
	exec := func(text string, args ...any) error {
		_, err := b.server.db.Exec(ctx, text, args...)
		return err
	}
	param := []any{"$1", "$2", "$3"}
	bytesOf := func(id kadm.TopicID) any { return [16]byte(id) }
	if b.sqlite {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "pawl.db"))
		if err != nil {
			return err
		}
		defer db.Close()
		exec = func(text string, args ...any) error {
			_, err := db.ExecContext(ctx, text, args...)
			return err
		}
		param = []any{"?1", "?2", "?3"}
		bytesOf = func(id kadm.TopicID) any { return id[:] }
	}
	for i := range askers {
		id := l.ids[l.topic(i)]
		err := errors.Join(
			exec(fmt.Sprintf(`update pawl_progress set topic = %s, topic_id = %s where consumer_id = %s`, param...), l.topic(i), bytesOf(id), i+1),
			exec(fmt.Sprintf(`update pawl_consumer set group_name = %s where id = %s`, param[0], param[1]), l.group(i), i+1))
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *logs) drop(ctx context.Context) {
	defer l.client.Close()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var topics, groups []string
	for i := range askers {
		topics, groups = append(topics, l.topic(i)), append(groups, l.group(i))
	}
	_, err := l.admin.DeleteTopics(ctx, topics...)
	_, errGroups := l.admin.DeleteGroups(ctx, groups...)
	if err := errors.Join(err, errGroups); err != nil {
		fmt.Fprintln(os.Stderr, "bench: cleaning up:", err)
	}
}
