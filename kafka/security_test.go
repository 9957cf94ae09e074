package kafka

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/kafkatest"
	"github.com/pawlhq/pawl/secret"
)

// secured starts a broker in this process with the users alice (PLAIN), bob (SCRAM-SHA-256) and carol (SCRAM-SHA-512),
// whose password is "right".
func secured(t *testing.T, opts ...kfake.Opt) *broker {
	t.Helper()
	cluster, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1), kfake.ClusterID("secured"), kfake.SeedTopics(1, topic))...)
	check(t, err)
	t.Cleanup(cluster.Close)
	return &broker{addrs: cluster.ListenAddrs(), topic: topic, group: group}
}

func withUsers() []kfake.Opt {
	return []kfake.Opt{
		kfake.EnableSASL(), kfake.Superuser("PLAIN", "alice", "right"), kfake.Superuser("SCRAM-SHA-256", "bob", "right"),
		kfake.Superuser("SCRAM-SHA-512", "carol", "right"),
	}
}

// trusting is a source with a configuration of its own, that logs nothing.
func (b *broker) trusting(cfg Config) *Source {
	cfg.Brokers, cfg.Group, cfg.Logger = b.addrs, b.group, slog.New(slog.DiscardHandler)
	cfg.Options = append(cfg.Options, kgo.HeartbeatInterval(50*time.Millisecond), kgo.FetchMaxWait(50*time.Millisecond))
	return New(cfg)
}

// put writes a secret to a file of the test.
func put(t *testing.T, path, content string) secret.Ref {
	t.Helper()
	check(t, os.WriteFile(path+".new", []byte(content), 0o600))
	check(t, os.Rename(path+".new", path))
	return secret.File(path)
}

func TestLogins(t *testing.T) {
	authority := kafkatest.NewAuthority(t)
	b := secured(t, append(withUsers(), kfake.TLS(authority.Server(t, nil)))...)
	right := secret.Literal("right")
	for _, login := range []SASL{
		Plain{User: "alice", Password: right}, SCRAM256{User: "bob", Password: right}, SCRAM512{User: "carol", Password: right},
	} {
		src := b.trusting(Config{TLS: &TLS{CA: secret.Literal(authority.PEM)}, SASL: login})
		if origin, err := src.Origin(t.Context()); err != nil || origin.Cluster != "secured" {
			t.Errorf("%T: %v, %v", login, origin, err)
		}
	}
}

func TestCertificates(t *testing.T) {
	ours, clients, others := kafkatest.NewAuthority(t), kafkatest.NewAuthority(t), kafkatest.NewAuthority(t)
	b := secured(t, kfake.TLS(ours.Server(t, clients)))
	ca := secret.Literal(ours.PEM)
	with := func(a *kafkatest.Authority) *TLS {
		cert, key := a.Issue(t, "client", 2*time.Hour)
		return &TLS{CA: ca, Certificate: secret.Literal(cert), Key: secret.Literal(key)}
	}
	unencrypted := secured(t)
	elsewhere, wrongName := with(clients), with(clients)
	elsewhere.CA = secret.Literal(others.PEM)
	wrongName.ServerName = "broker.example"
	for _, c := range []struct {
		name, hint string
		broker     *broker
		tls        *TLS
	}{
		{"both trust each other", "", b, with(clients)},
		{"no certificate", "does it ask for a client's certificate", b, &TLS{CA: ca}},
		{"a certificate of others", "does it ask for a client's certificate", b, with(others)},
		{"a broker of others", "set TLS.CA", b, elsewhere},
		{"not in the system's authorities", "set TLS.CA", b, &TLS{}},
		{"a broker with another name", "set TLS.ServerName", b, wrongName},
		{"a broker without TLS", "", unencrypted, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.broker.trusting(Config{TLS: c.tls}).Origin(t.Context())
			if c.hint == "" {
				check(t, err)
				return
			}
			e, ok := errors.AsType[*pawl.Error](err)
			if !ok || e.Class != pawl.Misconfigured || !strings.Contains(e.Hint, c.hint) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestABrokerWithoutTLSIsNotSpokenTo(t *testing.T) {
	b := secured(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	// Kafka closes the connection; kfake waits for the rest of what it takes for a request.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Write([]byte("not TLS at all"))
			conn.Close()
		}
	}()
	b.addrs = []string{listener.Addr().String()}
	_, err = b.trusting(Config{TLS: &TLS{}}).Origin(ctx)
	if e, ok := errors.AsType[*pawl.Error](err); !ok || e.Class != pawl.Misconfigured || !strings.Contains(e.Hint, "does not speak TLS") {
		t.Errorf("got %v", err)
	}
}

// A rotated file is picked up by the next connection, without a restart.
func TestSecretsAreReadForEveryConnection(t *testing.T) {
	dir := t.TempDir()
	first, second := kafkatest.NewAuthority(t), kafkatest.NewAuthority(t)
	one := secured(t, append(withUsers(), kfake.TLS(first.Server(t, first)))...)
	two := secured(t, append(withUsers(), kfake.TLS(second.Server(t, second)))...)
	issue := func(a *kafkatest.Authority, validFor time.Duration) {
		t.Helper()
		cert, key := a.Issue(t, "client", validFor)
		put(t, filepath.Join(dir, "cert"), cert)
		put(t, filepath.Join(dir, "key"), key)
		put(t, filepath.Join(dir, "ca"), a.PEM)
	}
	cfg := Config{
		TLS: &TLS{
			CA: secret.File(filepath.Join(dir, "ca")), Certificate: secret.File(filepath.Join(dir, "cert")),
			Key: secret.File(filepath.Join(dir, "key")),
		},
		SASL: SCRAM256{User: "bob", Password: secret.File(filepath.Join(dir, "password"))},
	}
	refused := func(b *broker, want string) {
		t.Helper()
		if _, err := b.trusting(cfg).Origin(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	issue(first, 30*time.Minute) // valid from an hour ago
	refused(one, "is valid from")
	issue(first, 2*time.Hour)
	refused(one, "read secret ${file:"+dir+"/password}")
	put(t, filepath.Join(dir, "password"), "right\n")
	src := one.trusting(cfg)
	_, err := src.Origin(t.Context())
	check(t, err)
	refused(two, "set TLS.CA")
	issue(second, 2*time.Hour)
	_, err = two.trusting(cfg).Origin(t.Context())
	check(t, err)

	// The one that was made before reads them anew, too.
	src.cfg.Brokers = two.addrs
	_, err = src.Origin(t.Context())
	check(t, err)
}

// A source that reads goes on with certificates that were replaced under it, from its next connection on.
func TestARunningSourceConnectsAgainWithNewCertificates(t *testing.T) {
	dir := t.TempDir()
	authority := kafkatest.NewAuthority(t)
	server := authority.Server(t, authority)
	shown := make(chan string, 1000) // names of the clients' certificates
	server.VerifyConnection = func(s tls.ConnectionState) error {
		shown <- s.PeerCertificates[0].Subject.CommonName
		return nil
	}
	lines := &cuttable{}
	b := secured(t, kfake.TLS(server), kfake.ListenFn(lines.listen))
	issue := func(name string) {
		cert, key := authority.Issue(t, name, 2*time.Hour)
		put(t, filepath.Join(dir, "cert"), cert)
		put(t, filepath.Join(dir, "key"), key)
	}
	issue("old")
	src := b.trusting(Config{TLS: &TLS{
		CA: secret.Literal(authority.PEM), Certificate: secret.File(filepath.Join(dir, "cert")), Key: secret.File(filepath.Join(dir, "key")),
	}})
	in := newIntake()
	b.start(t, src, in)
	in.wait(t, "assignment", func() bool { return in.assignment(0) != nil })
	await := func(name string) {
		t.Helper()
		deadline := time.After(timeout)
		for {
			select {
			case got := <-shown:
				if got == name {
					return
				}
			case <-deadline:
				t.Fatalf("the certificate %q was never shown", name)
			}
		}
	}
	await("old")
	issue("new")
	lines.cut()
	await("new")
}

// cuttable is a listener whose connections can be cut.
type cuttable struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (c *cuttable) listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	c.Listener = l
	return c, err
}

func (c *cuttable) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, conn)
	return conn, err
}

func (c *cuttable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		if conn != nil {
			conn.Close()
		}
	}
}

func TestSecurityErrorsAreReportedTogether(t *testing.T) {
	dir := t.TempDir()
	junk := put(t, filepath.Join(dir, "junk"), "no PEM")
	none := secret.File(filepath.Join(dir, "none"))
	tokens := TokenFunc(func(context.Context) (string, error) { return "", nil })
	option := kgo.SASL(plain.Auth{User: "u", Pass: "p"}.AsMechanism())
	for _, c := range []struct {
		name string
		cfg  Config
		want []string
	}{
		{"everything", Config{TLS: &TLS{CA: junk, Certificate: none, Key: none}, SASL: Plain{Password: none}}, []string{
			"Config.Brokers", "Config.Group", "holds no certificate", "read secret ${file:" + dir + "/none}", "User is empty",
		}},
		{"half a certificate", Config{TLS: &TLS{Key: junk}}, []string{"go together"}},
		{"junk for a certificate", Config{TLS: &TLS{Certificate: junk, Key: junk}}, []string{"failed to find any PEM data"}},
		{"PLAIN without TLS", Config{SASL: Plain{User: "u", Password: secret.Literal("p")}}, []string{"Plain.InsecureWithoutTLS"}},
		{"a token without TLS", Config{SASL: OAuthBearer{Tokens: tokens}}, []string{"OAuthBearer.InsecureWithoutTLS"}},
		{"no password", Config{SASL: SCRAM512{User: "u"}}, []string{"Password is not set"}},
		{"no tokens", Config{TLS: &TLS{}, SASL: OAuthBearer{}}, []string{"Tokens is not set"}},
		{"a provider", Config{TLS: &TLS{}, SASL: OAuthBearer{Tokens: &ClientCredentials{
			TokenURL: "http://issuer/token", ClientSecret: none, CA: junk,
		}}}, []string{"not https", "ClientID is empty", "/none}", "holds no certificate"}},
		{"TLS twice", Config{TLS: &TLS{}, Options: []kgo.Opt{kgo.DialTLSConfig(new(tls.Config))}}, []string{"kgo.DialTLSConfig is reserved: Config.TLS"}},
		{"TLS and a dialer", Config{TLS: &TLS{}, Options: []kgo.Opt{kgo.Dialer((&net.Dialer{}).DialContext)}}, []string{"kgo.Dialer is reserved: Config.TLS"}},
		{"TLS and its timeout", Config{TLS: &TLS{}, Options: []kgo.Opt{kgo.DialTimeout(time.Second)}}, []string{"kgo.DialTimeout is reserved: Config.TLS"}},
		{"SASL twice", Config{SASL: SCRAM256{User: "u", Password: secret.Literal("p")}, Options: []kgo.Opt{option}}, []string{"kgo.SASL is reserved: Config.SASL"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "everything" {
				c.cfg.Brokers, c.cfg.Group = []string{"127.0.0.1:1"}, group
			} else {
				c.cfg.Options = []kgo.Opt{kgo.DisableAutoCommit()}
				c.want = append(c.want, "kgo.DisableAutoCommit")
			}
			_, err := New(c.cfg).Origin(t.Context())
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s is missing from %v", want, err)
				}
			}
		})
	}
}

func TestPlainWithoutTLSIsPossibleByName(t *testing.T) {
	b := secured(t, withUsers()...)
	_, err := b.trusting(Config{SASL: Plain{User: "alice", Password: secret.Literal("right"), InsecureWithoutTLS: true}}).Origin(t.Context())
	check(t, err)
	// TLS may also come as an option; then the password is not sent in the clear either.
	authority := kafkatest.NewAuthority(t)
	b = secured(t, append(withUsers(), kfake.TLS(authority.Server(t, nil)))...)
	var log bytes.Buffer
	_, err = New(Config{
		Brokers: b.addrs, Group: group, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		SASL:    Plain{User: "alice", Password: secret.Literal("right")},
		Options: []kgo.Opt{kgo.DialTLSConfig(&tls.Config{InsecureSkipVerify: true})},
	}).Origin(t.Context())
	check(t, err)
	if !strings.Contains(log.String(), "INSECURE") {
		t.Errorf("TLS without verification is not worth a warning: %s", log.String())
	}
}

// The client would go on trying for ever, and say nothing of it in a poll. (A real broker refuses in test/security: this one
// would only hang up.)
func TestALoginThatIsRefusedEndsRunAtOnce(t *testing.T) {
	for name, refuse := range map[string]int16{
		"SASL_AUTHENTICATION_FAILED": kerr.SaslAuthenticationFailed.Code, "UNSUPPORTED_SASL_MECHANISM": 0, // kfake has no OAUTHBEARER
	} {
		t.Run(name, func(t *testing.T) {
			cluster, err := kfake.NewCluster(append(withUsers(), kfake.NumBrokers(1))...)
			check(t, err)
			defer cluster.Close()
			cluster.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
				cluster.KeepControl()
				resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
				resp.ErrorCode = refuse
				return resp, nil, refuse != 0
			})
			var logins atomic.Int64
			password := secret.Func("vault", func(context.Context) (string, error) {
				logins.Add(1)
				return "right", nil
			})
			b := &broker{addrs: cluster.ListenAddrs(), group: group}
			cfg := Config{SASL: SCRAM256{User: "bob", Password: password}}
			if refuse == 0 {
				cfg.SASL = OAuthBearer{
					InsecureWithoutTLS: true, Tokens: TokenFunc(func(ctx context.Context) (string, error) { return password.Resolve(ctx) }),
				}
			}
			src := b.trusting(cfg)
			_, oerr := src.Origin(t.Context())
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			rerr := src.Run(ctx, []string{topic}, newIntake())
			for _, err := range []error{oerr, rerr} {
				e, ok := errors.AsType[*pawl.Error](err)
				if !ok || e.Class != pawl.Misconfigured || !strings.Contains(err.Error(), name) || e.Hint == "" {
					t.Errorf("got %v", err)
				}
			}
			if n := logins.Load(); n > 10 {
				t.Errorf("%d logins were tried", n)
			}
		})
	}
}

// A secret that cannot be read while the source runs may be there again in a moment: Run goes on, without a loop of tries.
func TestASecretThatIsAwayForAWhileIsWaitedFor(t *testing.T) {
	b := secured(t, withUsers()...)
	var away atomic.Bool
	reads := make(chan struct{}, 100_000)
	password := secret.Func("vault", func(context.Context) (string, error) {
		reads <- struct{}{}
		if away.Load() {
			return "", errors.New("sealed")
		}
		return "right", nil
	})
	src := b.trusting(Config{SASL: SCRAM256{User: "bob", Password: password}})
	_, err := src.Origin(t.Context())
	check(t, err)
	away.Store(true)
	for len(reads) > 0 {
		<-reads
	}
	in := newIntake()
	begun := time.Now()
	b.start(t, src, in)
	for range 4 {
		<-reads
	}
	if took := time.Since(begun); took < 100*time.Millisecond {
		t.Errorf("four tries within %s", took)
	}
	away.Store(false)
	in.wait(t, "assignment", func() bool { return in.assignment(0) != nil })
}
