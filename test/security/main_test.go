// Package security proves who is let in, who is not, and that no secret is to be seen anywhere: against a real Apache Kafka
// and a real PostgreSQL.
package security

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/decode"
	"github.com/pawlhq/pawl/internal/kafkatest"
	"github.com/pawlhq/pawl/kafka"
	"github.com/pawlhq/pawl/secret"
	"github.com/pawlhq/pawl/sqlite"
)

func TestMain(m *testing.M) {
	crashIfAsked()
	goleak.VerifyTestMain(m)
}

const patience = 30 * time.Second

// world is a broker with users, and a topic with one record.
type world struct {
	*kafkatest.SecuredCluster
	topic string
	admin *kadm.Client
}

// The users of the broker, and their passwords: everyone's secret is a canary.
const (
	plainUser, plainPassword = "alice", "canary-plain-8d1e"
	scramUser, scramPassword = "bob", "canary-scram-77ac"
	wrongPassword            = "canary-wrong-20b9"
	clientSecret             = "canary-client-c3f1"
)

func newWorld(t *testing.T, relogin time.Duration) *world {
	t.Helper()
	w := &world{SecuredCluster: kafkatest.Secured(t, map[string]string{plainUser: plainPassword}, relogin)}
	cl := kafkatest.Client(t, w.Admin)
	w.admin = kadm.NewClient(cl)
	w.topic = kafkatest.Topic(t, w.Admin, 1)
	w.setScram(t, scramPassword)
	kafkatest.Produce(t, cl, w.topic, 0, 1)
	return w
}

// setScram sets the password of the SCRAM user, for both hashes.
func (w *world) setScram(t *testing.T, password string) {
	t.Helper()
	for _, m := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} { // a request may name a user once
		upsert := kadm.UpsertSCRAM{User: scramUser, Mechanism: m, Iterations: 4096, Password: password}
		results, err := w.admin.AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{upsert})
		check(t, errors.Join(err, results.Error()))
	}
}

// produce appends one record.
func (w *world) produce(t *testing.T) {
	t.Helper()
	kafkatest.Produce(t, kafkatest.Client(t, w.Admin), w.topic, 0, 1)
}

// trust is TLS with the authority of the broker.
func (w *world) trust() *kafka.TLS { return &kafka.TLS{CA: secret.Literal(w.Authority.PEM)} }

// config reaches brokers as a member of a group of its own.
func (w *world) config(t *testing.T, brokers []string, tls *kafka.TLS, login kafka.SASL) kafka.Config {
	return kafka.Config{
		Brokers: brokers, Group: kafkatest.Group(t), TLS: tls, SASL: login, Logger: slog.New(slog.DiscardHandler),
		Options: []kgo.Opt{kgo.HeartbeatInterval(100 * time.Millisecond), kgo.FetchMaxWait(100 * time.Millisecond), kgo.MetadataMinAge(50 * time.Millisecond)},
	}
}

// running is a runner on a store of its own.
type running struct {
	settled chan int64 // next offsets
	done    chan error
	stop    context.CancelFunc
}

// run reads the topic with cfg until the test ends. handler may be nil.
func (w *world) run(t *testing.T, cfg kafka.Config, pcfg pawl.Config, handler func() error) *running {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "pawl.db"))
	check(t, err)
	check(t, store.Migrate(t.Context()))
	r := &running{settled: make(chan int64, 100), done: make(chan error, 1)}
	pcfg.Consumer = "security"
	if pcfg.Logger == nil {
		pcfg.Logger = slog.New(slog.DiscardHandler)
	}
	hooked := pcfg.Hooks.Settled
	pcfg.Hooks.Settled = func(s pawl.Settled) {
		if hooked != nil {
			hooked(s)
		}
		r.settled <- s.Next
	}
	runner := pawl.NewRunner(store, kafka.New(cfg), pcfg)
	pawl.Handle(runner, pawl.Route{Name: "note", Topics: []string{w.topic}},
		decode.Bytes(func(m pawl.Meta, _ []byte) (pawl.Identity, error) { return pawl.Identity{Key: m.PositionKey()}, nil }),
		func(context.Context, pawl.SQLTx, pawl.Envelope[[]byte]) error {
			if handler != nil {
				return handler()
			}
			return nil
		})
	var ctx context.Context
	ctx, r.stop = context.WithCancel(t.Context())
	go func() { r.done <- runner.Run(ctx) }()
	t.Cleanup(func() {
		r.stop()
		r.end(t)
		check(t, store.Close())
	})
	return r
}

// await waits until the store's position is at least next.
func (r *running) await(t *testing.T, next int64) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case n := <-r.settled:
			if n >= next {
				return
			}
		case err := <-r.done:
			r.done <- err
			t.Fatalf("Run returned %v", err)
		case <-deadline:
			t.Fatalf("waited in vain for position %d", next)
		}
	}
}

// end waits until Run has returned, and returns what it returned.
func (r *running) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.done:
		r.done <- err // for the next who asks
		return err
	case <-time.After(patience):
		t.Error("Run does not return")
		return nil
	}
}

// provider is an identity provider whose tokens are for subject and valid until a time from now.
func provider(t *testing.T, subject string, life time.Duration) *kafka.ClientCredentials {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, key, _ := r.BasicAuth(); key != clientSecret {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"error":"invalid_client","error_description":"the secret is not %s"}`, key)
			return
		}
		fmt.Fprintf(w, `{"access_token":%q,"expires_in":3600}`, token(subject, life))
	}))
	t.Cleanup(s.Close)
	return &kafka.ClientCredentials{
		TokenURL: s.URL, ClientID: "pawl", ClientSecret: secret.Literal(clientSecret),
		CA: secret.Literal(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))),
	}
}

// token is an unsigned one.
func token(subject string, life time.Duration) string {
	now := time.Now()
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	return part(`{"alg":"none"}`) + "." + part(fmt.Sprintf(`{"sub":%q,"iat":%d,"exp":%d}`, subject, now.Add(-time.Hour).Unix(), now.Add(life).Unix())) + "."
}

// put writes a secret to a file, in one step.
func put(t *testing.T, path, content string) secret.Ref {
	t.Helper()
	check(t, os.WriteFile(path+".new", []byte(content), 0o600))
	check(t, os.Rename(path+".new", path))
	return secret.File(path)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
