package pipeline

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// loadSet loads two files with values given beside them.
func loadSet(t *testing.T, values ...string) (*Set, error) {
	t.Helper()
	one := "version: 1\nstore: {postgres: 'postgres://u:CANARY7@h/db'}\nkafka: {brokers: [a:1]}\n" + body(events, once, audit)[11:]
	two := strings.NewReplacer("  p:", "  q.r:", "log", "log2").Replace(body(events, once, audit, "limits: {batch: 10}"))
	files := fstest.MapFS{"one.yaml": {Data: []byte(one)}, "two.yaml": {Data: []byte(two)}}
	return Load([]string{"one.yaml", "two.yaml"}, Env{Files: files, Set: values})
}

func TestAValueGivenBesideTheFilesComesBeforeTheirs(t *testing.T) {
	set, err := loadSet(t, "pipelines.q.r.limits.batch=20", "pipelines.q.r.limits.batch=30", "pipelines.p.budget.percent=7",
		"kafka.brokers=[x:1, y:2]", "kafka.brokers[1]=z:3", "store.sqlite=x.db", `pipelines.p.when=$.n == "1"`)
	if err != nil {
		t.Fatal(err)
	}
	q, p := set.Get("q.r"), set.Get("p")
	if q.Limits.Batch != 30 || p.Budget.Percent != 7 || p.Limits.Batch != 0 || p.When.Text != `$.n == "1"` {
		t.Errorf("batch %d, percent %d, when %s", q.Limits.Batch, p.Budget.Percent, p.When)
	}
	if !slices.Equal(set.Kafka.Brokers, []string{"x:1", "z:3"}) || set.Store.SQLite != "x.db" || !set.Store.Postgres.IsZero() {
		t.Errorf("%v, %v", set.Kafka.Brokers, set.Store)
	}
	for _, s := range set.Settings {
		if given := strings.HasPrefix(s.Path, "kafka.") || s.Path == "store.sqlite" || s.Path == "pipelines.q.r.limits.batch"; given && s.Origin != "--set" {
			t.Errorf("%s comes from %s", s.Path, s.Origin)
		}
	}
}

func TestAValueThatHasNoPlaceIsAFinding(t *testing.T) {
	for given, want := range map[string]string{
		"nothing": "path=value", "=1": "path=value", "pipelines.z.order=none": "there are: p, q.r", "kafka.brokers[1]=x": "no element 1",
		"pipelines.p.topic.x=1": "below what is a value", "pipelines.p.ordr=none": "no key of p", "pipelines.p.order=sideways": "one of partition",
		"kafka={CANARY7": "not YAML", "kafka.sasl.pass=CANARY7": "no key of sasl", "kafka.sasl=CANARY7": "must be a mapping",
	} {
		set, err := loadSet(t, given)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "CANARY7") {
			t.Errorf("%s: %v; want %s", given, err, want)
		}
		if i := slices.IndexFunc(set.Findings, func(f Finding) bool { return f.Severity == Fault }); i >= 0 && !strings.HasPrefix(set.Findings[i].File, "--set") {
			t.Errorf("%s: the finding is said to be in %s", given, set.Findings[i].File)
		}
	}
}

// Whatever is set, nothing of a secret is among the settings, and every secret is: as its variable, or masked.
func TestSettingsNameSecretsAndShowNone(t *testing.T) {
	set, _ := loadSet(t, "kafka.sasl={mechanism: scram-sha-256, user: u, password: CANARY8}")
	seen := map[string]string{}
	for _, s := range set.Settings {
		seen[s.Path] = s.Value
		if strings.Contains(s.Value+s.Origin, "CANARY") {
			t.Errorf("%v", s)
		}
	}
	if seen["store.postgres"] != "***" || seen["kafka.sasl.password"] != "***" {
		t.Errorf("%v", seen)
	}
	if !slices.Contains(set.Defaults, Setting{"pipelines.p.limits.batch", "2000", "default"}) ||
		slices.ContainsFunc(set.Defaults, func(s Setting) bool { return s.Path == "pipelines.q.r.limits.batch" }) {
		t.Errorf("defaults: %v", set.Defaults)
	}
}
