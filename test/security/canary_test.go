package security

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/kafkatest"
	"github.com/pawlhq/pawl/internal/pgtest"
	"github.com/pawlhq/pawl/kafka"
	"github.com/pawlhq/pawl/metrics"
	"github.com/pawlhq/pawl/postgres"
	"github.com/pawlhq/pawl/secret"
)

// output is everything that an operator, or whoever gets hold of a log, might read.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

// show prints values in every way there is.
func (o *output) show(values ...any) {
	for _, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			fmt.Fprintf(o, verb+"\n", v)
		}
		if shown, err := json.Marshal(v); err == nil {
			o.Write(append(shown, '\n'))
		}
		o.logger().Error("shown", "value", v)
		slog.New(slog.NewJSONHandler(o, nil)).Error("shown", "value", v)
		if err, ok := v.(error); ok {
			for err = errors.Unwrap(err); err != nil; err = errors.Unwrap(err) {
				o.show(err)
			}
		}
	}
}

func (o *output) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(o, &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true}))
}

// find returns the canaries that are to be seen, in any of the forms in which a secret travels.
func (o *output) find(canaries []string) (found []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := o.buf.String()
	for _, c := range canaries {
		forms := []string{
			c, url.QueryEscape(c), hex.EncodeToString([]byte(c)), strings.ToUpper(hex.EncodeToString([]byte(c))),
			strings.Trim(fmt.Sprint([]byte(c)), "[]"),
		}
		for shift := range 3 { // base64 of a text that holds c depends on where c begins
			coded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + c))
			forms = append(forms, coded[4:len(coded)-4])
		}
		for _, form := range forms {
			if at := strings.Index(text, form); at >= 0 {
				found = append(found, fmt.Sprintf("%s, as %s in …%s…", c, form, text[max(0, at-200):min(len(text), at+200)]))
			}
		}
	}
	return found
}

// keyCanary is a piece of a private key that no other key has.
func keyCanary(key string) string { return strings.Split(key, "\n")[1][36:] }

// The handler's own panics are its own: what it puts into them is shown, because someone has to find the fault. But a
// configuration that it prints is no leak.
func (w *world) noSecretIsSeen(t *testing.T) {
	var (
		out      output
		canaries = []string{plainPassword, scramPassword, wrongPassword, clientSecret, "canary-token-9e44", "canary-key-file-11d0"}
		dir      = t.TempDir()
		good     = w.withCertificate(t, w.Authority)
		bad      = w.withCertificate(t, kafkatest.NewAuthority(t))
	)
	for i, tls := range []*kafka.TLS{good, bad} {
		key, err := tls.Key.Resolve(t.Context())
		check(t, err)
		canaries = append(canaries, keyCanary(key))
		tls.Key = put(t, filepath.Join(dir, fmt.Sprintf("key-%d", i)), key)
	}
	canaries = append(canaries, strings.Split(token("canary-token-9e44", time.Hour), ".")[1][:24])
	broken := *good
	broken.Key = put(t, filepath.Join(dir, "broken"), "-----BEGIN PRIVATE KEY-----\ncanary-key-file-11d0\n-----END PRIVATE KEY-----\n")
	closed := closedPort(t)
	tokens := provider(t, "canary-token-9e44", time.Hour)
	refusedTokens := provider(t, "x", time.Hour)
	refusedTokens.ClientSecret = secret.Literal(wrongPassword)
	lit := secret.Literal

	for _, c := range []struct {
		name    string
		brokers []string
		tls     *kafka.TLS
		login   kafka.SASL
		works   bool
	}{
		{"PLAIN", w.SASL, w.trust(), kafka.Plain{User: plainUser, Password: lit(plainPassword)}, true},
		{"SCRAM", w.SASL, w.trust(), kafka.SCRAM256{User: scramUser, Password: lit(scramPassword)}, true},
		{"OAUTHBEARER", w.SASL, w.trust(), kafka.OAuthBearer{Tokens: tokens}, true},
		{"mTLS", w.MTLS, good, nil, true},
		{"wrong PLAIN", w.SASL, w.trust(), kafka.Plain{User: plainUser, Password: lit(wrongPassword)}, false},
		{"wrong SCRAM", w.SASL, w.trust(), kafka.SCRAM512{User: scramUser, Password: lit(wrongPassword)}, false},
		{"an expired token", w.SASL, w.trust(), kafka.OAuthBearer{Tokens: provider(t, "canary-token-9e44", -time.Hour)}, false},
		{"a refused client", w.SASL, w.trust(), kafka.OAuthBearer{Tokens: refusedTokens}, false},
		{"refused mTLS", w.MTLS, bad, nil, false},
		{"a broken key", w.MTLS, &broken, nil, false},
		{"PLAIN without TLS", w.SASL, nil, kafka.Plain{User: plainUser, Password: lit(plainPassword)}, false},
		{"SCRAM without TLS", w.SASL, nil, kafka.SCRAM256{User: scramUser, Password: lit(scramPassword)}, false},
		{"nobody there", closed, w.trust(), kafka.Plain{User: plainUser, Password: lit(plainPassword)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := w.config(t, c.brokers, c.tls, c.login)
			cfg.Logger = out.logger()
			cfg.Options = append(cfg.Options, kgo.WithLogger(clientLog{&out}), kgo.WithHooks(clientHooks{&out}))
			registry := prometheus.NewPedanticRegistry()
			meters, err := metrics.New(registry, metrics.Config{Consumer: "security"})
			check(t, err)
			pcfg := pawl.Config{Logger: out.logger(), MaxTries: 2, Hooks: pawl.JoinHooks(meters.Hooks(), pawl.Hooks{
				Raised: func(c pawl.Condition) { out.show(c) },
				Settled: func(s pawl.Settled) {
					out.show(s)
					for _, d := range s.Decisions {
						out.show(*d)
					}
				},
				Failed: func(f pawl.Failure) { out.show(f, f.Err) },
			})}
			panicked := false
			r := w.run(t, cfg, pcfg, func() error {
				if !panicked {
					panicked = true
					panic(fmt.Sprintf("the configuration is %+v, or %#v", cfg, cfg))
				}
				panic(cfg) // the second time it is set aside, with the reason
			})
			if c.works {
				r.await(t, 1)
			} else {
				err := r.end(t)
				if err == nil {
					t.Error("it was let in")
				}
				out.show(err)
			}
			out.show(cfg, &cfg, cfg.SASL, kafka.New(cfg))
			families, err := registry.Gather()
			check(t, err)
			if len(families) == 0 {
				t.Error("there are no metrics to look at")
			}
			for _, f := range families {
				out.show(f.String())
			}
			if cfg.TLS != nil {
				out.show(*cfg.TLS)
			}
		})
	}
	out.show(tokens) // it keeps one
	out.Write(crash(t))
	dsnCanaries := databases(t, &out)

	for _, found := range out.find(append(canaries, dsnCanaries...)) {
		t.Errorf("a secret is to be seen: %s", found)
	}
	for _, must := range []string{"SASL_AUTHENTICATION_FAILED", "invalid_client", "panic: the configuration is", "beginning sasl authentication", "goroutine "} {
		if !strings.Contains(out.buf.String(), must) {
			t.Errorf("the output has no %q: the test looks in the wrong place", must)
		}
	}
	t.Logf("looked through %d KiB of output for %d secrets", out.buf.Len()>>10, len(canaries)+len(dsnCanaries))
}

// Without this, a search that finds nothing would say nothing.
func TestASecretThatIsSeenIsFound(t *testing.T) {
	const canary = "canary-control-4b4b"
	for name, leak := range map[string]func(o *output){
		"plain":     func(o *output) { o.logger().Debug("login", "password", canary) },
		"error":     func(o *output) { o.show(fmt.Errorf("login with %q", canary)) },
		"field":     func(o *output) { o.show(struct{ password string }{canary}) },
		"bytes":     func(o *output) { fmt.Fprint(o, []byte("\x00user\x00"+canary)) },
		"hex":       func(o *output) { fmt.Fprintf(o, "%x", "\x00user\x00"+canary) },
		"base64":    func(o *output) { fmt.Fprint(o, base64.StdEncoding.EncodeToString([]byte("pawl:"+canary+"!"))) },
		"driver":    func(o *output) { _, err := pgxpool.ParseConfig("postgres://u:" + canary + "@h:port/"); o.show(err) },
		"unwrapped": func(o *output) { o.show(&pawl.Error{Op: "x", Err: errors.New(canary)}) },
	} {
		var o output
		leak(&o)
		if len(o.find([]string{canary})) == 0 {
			t.Errorf("%s: not found in %s", name, o.buf.String())
		}
	}
}

// databases shows what connecting to PostgreSQL says, and returns the passwords.
func databases(t *testing.T, out *output) []string {
	t.Helper()
	const password = "canary-dsn-5e1f"
	// Of texts that are no connection string, the driver hides what it takes for the password.
	for _, dsn := range []string{
		"postgres://u:" + password + "@" + closedPort(t)[0] + "/db?sslmode=disable&connect_timeout=2",
		"postgres://u:" + password + "@h:port/db", "postgres://u:" + password + "/x@h/db", "host=h port=x password=" + password,
		"host=h password='" + password, "password = " + password + " host=h =", password, "mysql://u:" + password + "#@h/db",
		"postgres://u:%zz" + password + "@h/db",
	} {
		dsns := []secret.Ref{secret.Literal(dsn), put(t, filepath.Join(t.TempDir(), "dsn"), dsn)}
		for _, ref := range dsns {
			pool, err := postgres.Connect(t.Context(), ref)
			if err == nil {
				err = postgres.New(pool).Migrate(t.Context())
				pool.Close()
			}
			if err == nil {
				t.Errorf("connected with %s", dsn)
			}
			out.show(err)
		}
	}
	u, err := url.Parse(pgtest.URL(t))
	check(t, err)
	u.User = url.UserPassword(u.User.Username(), password)
	path := filepath.Join(t.TempDir(), "dsn")
	pool, err := postgres.Connect(t.Context(), put(t, path, u.String()+"\n"))
	check(t, err)
	defer pool.Close()
	check(t, postgres.New(pool).Migrate(t.Context()))

	// A user that was changed is used by the next connection.
	u.User = url.UserPassword("nobody-of-that-name", password)
	put(t, path, u.String())
	pool.Reset()
	err = postgres.New(pool).Migrate(t.Context())
	if err == nil || !strings.Contains(err.Error(), "nobody-of-that-name") {
		t.Errorf("got %v", err)
	}
	out.show(err)
	return []string{password}
}

// crash ends a process by a panic with a configuration in its hands, and returns what it printed.
func crash(t *testing.T) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	exe, err := os.Executable()
	check(t, err)
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), "PAWL_SECURITY_CRASH=1", "GOTRACEBACK=all")
	printed, err := cmd.CombinedOutput()
	if err == nil {
		t.Error("it did not crash")
	}
	return printed
}

func crashIfAsked() {
	if os.Getenv("PAWL_SECURITY_CRASH") == "" {
		return
	}
	cfg := kafka.Config{SASL: kafka.Plain{User: plainUser, Password: secret.Literal(plainPassword)}}
	source := kafka.New(cfg)
	defer func() {
		panic(fmt.Errorf("%v, %+v, %#v: %v", cfg, source, source, recover()))
	}()
	panic(fmt.Sprint(cfg.SASL))
}

// closedPort is an address at which nobody listens.
func closedPort(t *testing.T) []string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	return []string{l.Addr().String()}
}

// clientLog gets everything that the client library logs.
type clientLog struct{ out *output }

func (clientLog) Level() kgo.LogLevel { return kgo.LogLevelDebug }

func (l clientLog) Log(_ kgo.LogLevel, msg string, keyvals ...any) {
	l.out.logger().Debug(msg, keyvals...)
	fmt.Fprintf(l.out, "%s %#v\n", msg, keyvals)
}

// clientHooks prints what the client library tells of its connections.
type clientHooks struct{ out *output }

func (h clientHooks) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	h.out.show(meta, err)
}

func (h clientHooks) OnGroupManageError(err error) { h.out.show(err) }
