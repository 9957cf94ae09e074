package security

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/pawlhq/pawl"
	"github.com/pawlhq/pawl/internal/kafkatest"
	"github.com/pawlhq/pawl/kafka"
	"github.com/pawlhq/pawl/secret"
)

// relogin is how long a login counts at the broker: the client renews it a second before.
const relogin = 2 * time.Second

func TestARealBrokerLetsInWhoItShould(t *testing.T) {
	w := newWorld(t, relogin)
	t.Run("let in", w.letIn)
	t.Run("refused", w.refused)
	t.Run("rotated password", w.rotatedPassword)
	t.Run("changed certificate", w.changedCertificate)
	t.Run("rights taken away", w.rightsTakenAway)
	t.Run("no secret is seen", w.noSecretIsSeen)
}

func (w *world) withCertificate(t *testing.T, a *kafkatest.Authority) *kafka.TLS {
	t.Helper()
	tls := w.trust()
	cert, key := a.Issue(t, "client", 2*time.Hour)
	tls.Certificate, tls.Key = secret.Literal(cert), secret.Literal(key)
	return tls
}

func (w *world) letIn(t *testing.T) {
	scram := secret.Literal(scramPassword)
	for _, c := range []struct {
		name    string
		brokers []string
		tls     *kafka.TLS
		login   kafka.SASL
	}{
		{"TLS", w.TLS, w.trust(), nil},
		{"mTLS", w.MTLS, w.withCertificate(t, w.Authority), nil},
		{"PLAIN", w.SASL, w.trust(), kafka.Plain{User: plainUser, Password: secret.Literal(plainPassword)}},
		{"SCRAM-SHA-256", w.SASL, w.trust(), kafka.SCRAM256{User: scramUser, Password: scram}},
		{"SCRAM-SHA-512", w.SASL, w.trust(), kafka.SCRAM512{User: scramUser, Password: scram}},
		{"OAUTHBEARER", w.SASL, w.trust(), kafka.OAuthBearer{Tokens: provider(t, "dave", time.Hour)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.run(t, w.config(t, c.brokers, c.tls, c.login), pawl.Config{}, nil).await(t, 1)
		})
	}
}

func (w *world) refused(t *testing.T) {
	wrong := secret.Literal(wrongPassword)
	elsewhere := w.trust()
	elsewhere.CA = secret.Literal(kafkatest.NewAuthority(t).PEM)
	for _, c := range []struct {
		name    string
		brokers []string
		tls     *kafka.TLS
		login   kafka.SASL
		hint    string
	}{
		{"PLAIN", w.SASL, w.trust(), kafka.Plain{User: plainUser, Password: wrong}, "does not accept this login"},
		{"PLAIN, unknown", w.SASL, w.trust(), kafka.Plain{User: "nobody", Password: wrong}, "does not accept this login"},
		{"SCRAM-SHA-256", w.SASL, w.trust(), kafka.SCRAM256{User: scramUser, Password: wrong}, "does not accept this login"},
		{"SCRAM-SHA-512", w.SASL, w.trust(), kafka.SCRAM512{User: scramUser, Password: wrong}, "does not accept this login"},
		{"OAUTHBEARER, expired", w.SASL, w.trust(), kafka.OAuthBearer{Tokens: provider(t, "dave", -time.Minute)}, "does not accept this login"},
		{"no certificate", w.MTLS, w.trust(), nil, "does it ask for a client's certificate"},
		{"a certificate of others", w.MTLS, w.withCertificate(t, kafkatest.NewAuthority(t)), nil, "does it ask for a client's certificate"},
		{"a broker of others", w.TLS, elsewhere, nil, "set TLS.CA"},
		{"TLS where there is none", w.Admin, w.trust(), nil, ""},
		{"no TLS where there is one", w.TLS, nil, nil, ""},
		{"no login where one is asked for", w.SASL, w.trust(), nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			begun := time.Now()
			err := w.run(t, w.config(t, c.brokers, c.tls, c.login), pawl.Config{}, nil).end(t)
			e, ok := errors.AsType[*pawl.Error](err)
			if !ok || c.hint != "" && e.Class != pawl.Misconfigured || e.Hint == "" || !strings.Contains(e.Hint, c.hint) {
				t.Errorf("got %v", err)
			}
			t.Logf("after %s: %v", time.Since(begun).Round(time.Millisecond), err)
		})
	}
}

// A password that was changed is picked up from its file at the next login, on connections that stand; one that was changed
// at the broker alone is told, and tried again until it fits.
func (w *world) rotatedPassword(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	file := put(t, path, scramPassword+"\n")
	var logins atomic.Int64
	login := make(chan struct{}, 1000)
	password := secret.Func("counted "+file.String(), func(ctx context.Context) (string, error) {
		logins.Add(1)
		login <- struct{}{}
		return file.Resolve(ctx)
	})
	told, hooks := conditions()
	r := w.run(t, w.config(t, w.SASL, w.trust(), kafka.SCRAM512{User: scramUser, Password: password}), pawl.Config{Hooks: hooks}, nil)
	r.await(t, 1)

	// In the moment between the two, a login may meet the new password with the old one: the file goes first.
	put(t, path, "canary-rotated-e0d7")
	w.setScram(t, "canary-rotated-e0d7")
	for len(login) > 0 {
		<-login
	}
	select {
	case <-login:
	case <-time.After(patience):
		t.Fatal("the login is not renewed")
	}
	w.produce(t)
	r.await(t, 2)

	before := logins.Load()
	w.setScram(t, scramPassword)
	if c := await(t, told, "raised unauthorized"); !strings.Contains(c, "SASL_AUTHENTICATION_FAILED") {
		t.Errorf("told %q", c)
	}
	if n := logins.Load() - before; n > 20 {
		t.Errorf("%d logins were tried with a password that is refused", n)
	}
	w.setScram(t, "canary-rotated-e0d7")
	w.produce(t)
	r.await(t, 3)
	await(t, told, "cleared unauthorized")
	r.stop()
	check(t, r.end(t))
	w.setScram(t, scramPassword)
}

// conditions is told what a runner's hooks are told.
func conditions() (<-chan string, pawl.Hooks) {
	told := make(chan string, 100)
	return told, pawl.Hooks{
		Raised:  func(c pawl.Condition) { told <- fmt.Sprintf("raised %s: %s (%s)", c.State, c.Reason, c.Hint) },
		Cleared: func(_ pawl.Partition, state pawl.State) { told <- "cleared " + string(state) },
	}
}

func await(t *testing.T, told <-chan string, what string) string {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case c := <-told:
			if strings.HasPrefix(c, what) {
				return c
			}
		case <-deadline:
			t.Fatalf("not told in time: %s", what)
		}
	}
}

// A certificate that has expired is refused here, by name and date; the one that replaces it is used at once.
func (w *world) changedCertificate(t *testing.T) {
	dir := t.TempDir()
	tls := w.trust()
	tls.Certificate, tls.Key = secret.File(filepath.Join(dir, "cert")), secret.File(filepath.Join(dir, "key"))
	issue := func(validFor time.Duration) {
		cert, key := w.Authority.Issue(t, "client", validFor)
		put(t, filepath.Join(dir, "cert"), cert)
		put(t, filepath.Join(dir, "key"), key)
	}
	issue(time.Minute)
	source := kafka.New(w.config(t, w.MTLS, tls, nil))
	if _, err := source.Origin(t.Context()); err == nil || !strings.Contains(err.Error(), "is valid from") {
		t.Errorf("got %v", err)
	}
	issue(2 * time.Hour)
	_, err := source.Origin(t.Context())
	check(t, err)
}

// Rights that are taken away while reading are told, with what is missing; once they are given back, reading goes on.
func (w *world) rightsTakenAway(t *testing.T) {
	own := *w
	own.topic = kafkatest.Topic(t, w.Admin, 1)
	own.produce(t)
	told, hooks := conditions()
	r := own.run(t, w.config(t, w.SASL, w.trust(), kafka.Plain{User: plainUser, Password: secret.Literal(plainPassword)}), pawl.Config{Hooks: hooks}, nil)
	r.await(t, 1)
	acl := kadm.NewACLs().Deny("User:" + plainUser).DenyHosts("*").Topics(own.topic).
		Operations(kadm.OpRead).ResourcePatternType(kadm.ACLPatternLiteral)
	results, err := w.admin.CreateACLs(t.Context(), acl)
	check(t, err)
	for _, result := range results {
		check(t, result.Err)
	}
	if c := await(t, told, "raised unauthorized"); !strings.Contains(c, "READ") {
		t.Errorf("told %q", c)
	}
	_, err = w.admin.DeleteACLs(t.Context(), acl)
	check(t, err)
	own.produce(t)
	r.await(t, 2)
	r.stop()
	check(t, r.end(t))
}
