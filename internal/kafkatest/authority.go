package kafkatest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// Authority signs certificates for one test.
type Authority struct {
	PEM string // its own certificate

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority that nobody else knows.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := new(Authority)
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority of a test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	a.cert, a.key = a.sign(t, template)
	a.PEM = encode("CERTIFICATE", a.cert.Raw)
	return a
}

// Issue signs a certificate for a name, valid for a time from an hour ago on, and returns it and its key in PEM. It serves
// for clients, and for servers on the loopback address.
func (a *Authority) Issue(t testing.TB, name string, validFor time.Duration) (certificate, key string) {
	t.Helper()
	from := time.Now().Add(-time.Hour)
	cert, priv := a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		NotBefore: from, NotAfter: from.Add(validFor),
	})
	der, err := x509.MarshalPKCS8PrivateKey(priv)
	if err != nil {
		t.Fatal(err)
	}
	return encode("CERTIFICATE", cert.Raw), encode("PRIVATE KEY", der)
}

// Server is the TLS of a server whose certificate a signs. It asks for a client's certificate if clients is not nil.
func (a *Authority) Server(t testing.TB, clients *Authority) *tls.Config {
	t.Helper()
	pair, err := tls.X509KeyPair(pairOf(a.Issue(t, "localhost", 2*time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{pair}}
	if clients != nil {
		cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		cfg.ClientCAs.AddCert(clients.cert)
	}
	return cfg
}

func pairOf(certificate, key string) (certPEM, keyPEM []byte) {
	return []byte(certificate), []byte(key)
}

// sign signs with a's key, or, while it has none, lets the new certificate sign itself.
func (a *Authority) sign(t testing.TB, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		t.Fatal(err)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
