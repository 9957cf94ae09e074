package kafkatest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/pgtest/services"
)

// SecuredCluster is a real broker that asks who is there.
type SecuredCluster struct {
	Admin     []string   // no questions asked, everything allowed: to set up the test
	TLS       []string   // any client
	MTLS      []string   // clients with a certificate of Authority
	SASL      []string   // over TLS: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, and OAUTHBEARER with unsigned tokens
	Authority *Authority // signed the broker's certificate, for the loopback address
}

// Secured starts a broker for the test alone and stops it when the test ends. It takes seconds. plain are users of PLAIN by
// name, with their passwords; those of SCRAM are added by requests. Logins over SASL have to be renewed after relogin.
func Secured(t testing.TB, plain map[string]string, relogin time.Duration) *SecuredCluster {
	t.Helper()
	const modules = "org.apache.kafka.common.security."
	authority := NewAuthority(t)
	cert, key := authority.Issue(t, "localhost", 2*time.Hour)
	users := ""
	for name, password := range plain {
		users += fmt.Sprintf(" user_%s=%q", name, password)
	}
	var conf strings.Builder
	for _, line := range [][2]string{
		{"ssl.keystore.key", key},
		{"ssl.keystore.certificate.chain", cert},
		{"ssl.truststore.certificates", authority.PEM},
		{"listener.name.sasl.sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"},
		{"listener.name.sasl.plain.sasl.jaas.config", modules + "plain.PlainLoginModule required" + users + ";"},
		{"listener.name.sasl.scram-sha-256.sasl.jaas.config", modules + "scram.ScramLoginModule required;"},
		{"listener.name.sasl.scram-sha-512.sasl.jaas.config", modules + "scram.ScramLoginModule required;"},
		{"listener.name.sasl.oauthbearer.sasl.jaas.config", modules + `oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";`},
	} {
		fmt.Fprintf(&conf, "%s=%s\n", line[0], strings.ReplaceAll(line[1], "\n", `\n`))
	}
	for _, mechanism := range []string{"plain", "scram-sha-256", "scram-sha-512", "oauthbearer"} {
		fmt.Fprintf(&conf, "listener.name.sasl.%s.connections.max.reauth.ms=%d\n", mechanism, relogin.Milliseconds())
	}
	path := filepath.Join(t.TempDir(), "kafkasec.properties")
	if err := os.WriteFile(path, []byte(conf.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	own := services.Start(t, "kafkasec", "PAWL_KAFKASEC_PROPERTIES="+path)
	addrs := strings.Split(own.Address, ",")
	if len(addrs) != 4 {
		t.Fatalf("the broker has the addresses %s, want 4", own.Address)
	}
	return &SecuredCluster{Admin: addrs[:1], TLS: addrs[1:2], MTLS: addrs[2:3], SASL: addrs[3:], Authority: authority}
}
