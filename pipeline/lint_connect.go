package pipeline

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/secret"
)

func (l *linter) store(f *loaded) {
	s := f.Store
	if s.Postgres.IsZero() == (s.SQLite == "") && !f.b.failedWithin("store") {
		f.b.fault("one-store", f.b.places["store"].key, "store", "write store: {postgres: …} or store: {sqlite: …}",
			"a store is either PostgreSQL or SQLite")
	}
	if s.Schema != "" && s.SQLite != "" {
		f.b.fault("no-effect", f.b.place("store.schema"), "store.schema", "", "SQLite has no schemas")
	}
	if s.Schema != "" && !identifier.MatchString(s.Schema) {
		f.b.fault("identifier", f.b.place("store.schema"), "store.schema", "", "a schema has small letters, digits and _")
	}
	if s.Postgres.Inline() && hasPassword(s.Postgres) {
		f.b.report(Warning, "inline-secret", f.b.place("store.postgres"), "store.postgres",
			"write ${file:/path} or ${NAME}", "the password is written down here")
	}
	if s.Postgres.Inline() && asyncCommit.MatchString(revealed(s.Postgres)) {
		f.b.fault("async-commit", f.b.place("store.postgres"), "store.postgres", "remove synchronous_commit",
			"the database may lose a commit that was answered")
	}
	if m := weakSync.FindString(strings.ToLower(s.SQLite)); m != "" {
		f.b.fault("sqlite-durability", f.b.place("store.sqlite"), "store.sqlite", "remove synchronous: FULL is the default",
			"SQLite may lose a commit with the power")
	}
}

var (
	asyncCommit = regexp.MustCompile(`(?i)synchronous_commit(=|%3D|\s)+'?(off|false|no|0|local)`)
	weakSync    = regexp.MustCompile(`synchronous(=|\(|%28|%3d| )+'?(off|normal|0|1)`)
)

// revealed is a secret that is written down in the file: there is nothing left to hide from a check.
func revealed(r secret.Ref) string {
	text, _ := r.Resolve(context.Background())
	return text
}

func hasPassword(r secret.Ref) bool {
	text := revealed(r)
	if u, err := url.Parse(text); err == nil && u.User != nil {
		_, has := u.User.Password()
		return has
	}
	return strings.Contains(text, "password=")
}

// schemed is an address that was taken from something else.
var schemed = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+.-]*://`)

func (l *linter) kafka(f *loaded) {
	k := f.Kafka
	for i, b := range k.Brokers {
		path := fmt.Sprintf("kafka.brokers[%d]", i)
		if strings.Contains(b, "${") { // a variable that is not set here
			continue
		}
		if schemed.MatchString(b) || strings.ContainsAny(b, " ,/") {
			f.b.fault("value", f.b.place(path), path, "write host:9092, and each address by itself", "this is no address of a broker")
		} else if _, port, err := net.SplitHostPort(b); err == nil {
			if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
				f.b.fault("value", f.b.place(path), path, "write host:9092", "a port is a number from 1 to 65535")
			}
		}
	}
	if t := k.TLS; t != nil {
		for _, pem := range []struct {
			ref secret.Ref
			key string
		}{{t.CA, "ca"}, {t.Certificate, "certificate"}, {t.Key, "key"}} {
			path := "kafka.tls." + pem.key
			switch text := revealed(pem.ref); {
			case !pem.ref.Inline():
			case !strings.Contains(text, "-----BEGIN"):
				f.b.fault("value", f.b.place(path), path, "write ${file:/path}, if it is a file", "%s is PEM, and this is none", pem.key)
			case pem.key == "key":
				f.b.report(Warning, "inline-secret", f.b.place(path), path, "write ${file:/path}", "the key is written down here")
			}
		}
		if t.Certificate.IsZero() != t.Key.IsZero() {
			f.b.fault("required", f.b.place("kafka.tls"), "kafka.tls", "give both, or neither", "a certificate and its key go together")
		}
	}
	if k.SASL == nil {
		return
	}
	if k.SASL.Mechanism == "plain" && k.TLS == nil {
		f.b.fault("plain-without-tls", f.b.place("kafka.sasl.mechanism"), "kafka.sasl", "add tls: {}, or use scram-sha-512",
			"the password would be sent as it is")
	}
	if k.SASL.Password.Inline() {
		f.b.report(Warning, "inline-secret", f.b.place("kafka.sasl.password"), "kafka.sasl.password",
			"write ${file:/path} or ${NAME}", "the password is written down here")
	}
}
