package kafka_test

import (
	"fmt"

	"github.com/pawlhq/pawl/kafka"
	"github.com/pawlhq/pawl/secret"
)

// A login with a user and a password, over TLS. Secrets are named, not held: they are read at each connection and login, and a
// configuration that is printed shows their names.
func ExampleConfig_login() {
	cfg := kafka.Config{
		Brokers: []string{"kafka.example:9093"}, Group: "billing",
		TLS:  &kafka.TLS{CA: secret.File("/etc/pawl/ca.pem")},
		SASL: kafka.SCRAM512{User: "billing", Password: secret.Env("KAFKA_PASSWORD")},
	}
	fmt.Printf("%+v\n%+v\n", *cfg.TLS, cfg.SASL)
	// Output:
	// {CA:${file:/etc/pawl/ca.pem} Certificate: Key: ServerName:}
	// {User:billing Password:${env:KAFKA_PASSWORD}}
}

// With a certificate of the client's own (mTLS). Files that are replaced are used from the next connection on.
func ExampleConfig_certificate() {
	source := kafka.New(kafka.Config{
		Brokers: []string{"kafka.example:9093"}, Group: "billing",
		TLS: &kafka.TLS{
			CA: secret.File("/etc/pawl/ca.pem"), Certificate: secret.File("/etc/pawl/client.pem"), Key: secret.File("/etc/pawl/client.key"),
		},
	})
	_ = source
}

// With tokens of an identity provider.
func ExampleConfig_token() {
	source := kafka.New(kafka.Config{
		Brokers: []string{"kafka.example:9093"}, Group: "billing",
		TLS: &kafka.TLS{},
		SASL: kafka.OAuthBearer{Tokens: &kafka.ClientCredentials{
			TokenURL: "https://login.example/oauth2/token", ClientID: "billing", ClientSecret: secret.File("/run/secrets/kafka"),
			Scopes: []string{"kafka"},
		}},
	})
	_ = source
}
