package kafka

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlhq/pawl/secret"
)

// provider is an identity provider with one client.
func provider(t *testing.T, answer http.HandlerFunc) *ClientCredentials {
	t.Helper()
	s := httptest.NewTLSServer(answer)
	t.Cleanup(s.Close)
	return &ClientCredentials{
		TokenURL: s.URL + "/token", ClientID: "id:with/colon", ClientSecret: secret.Literal("canary-secret+%"),
		CA: secret.Literal(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))),
	}
}

func TestATokenIsAskedForAndKept(t *testing.T) {
	var asked atomic.Int64
	c := provider(t, func(w http.ResponseWriter, r *http.Request) {
		id, key, _ := r.BasicAuth()
		if id != "id%3Awith%2Fcolon" || key != "canary-secret%2B%25" {
			t.Errorf("credentials %s, %s", id, key)
		}
		for name, want := range map[string]string{"grant_type": "client_credentials", "scope": "a b", "audience": "kafka"} {
			if got := r.FormValue(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		fmt.Fprintf(w, `{"access_token":"token-%d","token_type":"Bearer","expires_in":"3600"}`, asked.Add(1))
	})
	c.Scopes, c.Parameters = []string{"a", "b"}, map[string][]string{"audience": {"kafka"}}
	want := func(token string) {
		t.Helper()
		if got, err := c.Token(t.Context()); got != token || err != nil {
			t.Errorf("%q, %v; want %q", got, err, token)
		}
	}
	want("token-1")
	want("token-1")
	if left := time.Until(c.keepTo); left < 47*time.Minute || left > 48*time.Minute {
		t.Errorf("kept for %s, want four fifths of an hour", left)
	}
	c.keepTo = time.Now()
	want("token-2")
	c.forget("token-1") // no longer in use
	want("token-2")
	c.forget("token-2")
	want("token-3")
}

func TestATokenOfUnknownLifeIsNotKept(t *testing.T) {
	var asked atomic.Int64
	c := provider(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, `{"access_token":"token"}`)
	})
	for range 2 {
		if _, err := c.Token(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

func TestWhatAProviderMayAnswerInstead(t *testing.T) {
	for _, c := range []struct {
		name, want string
		answer     http.HandlerFunc
	}{
		{"refused", "the answer is 401, invalid_client", func(w http.ResponseWriter, r *http.Request) {
			_, key, _ := r.BasicAuth()
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"error":"invalid_client","error_description":"not %s"}`, key)
		}},
		{"a reason that repeats the secret", "the answer is 400", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":"canary-secret"}`)
		}},
		{"elsewhere", "the answer is 307", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://127.0.0.1:1/canary-secret", http.StatusTemporaryRedirect)
		}},
		{"no token", "holds no access_token", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) }},
		{"no JSON", "holds no access_token", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `canary-secret`) }},
		{"a token that ends itself", "no token may have", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"access_token":"canary-secret\u0001auth=Bearer x"}`)
		}},
		{"without end", "longer than", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"access_token":"%s"}`, strings.Repeat("canary-secret", maxTokenBody/10))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			token, err := provider(t, c.answer).Token(t.Context())
			if token != "" || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q, %v; want %s", token, err, c.want)
			}
			for _, verb := range []string{"%v", "%+v", "%#v"} {
				if s := fmt.Sprintf(verb, err); strings.Contains(s, "canary") {
					t.Errorf("a secret in %s", s)
				}
			}
		})
	}
}

func TestAProviderMustBeTrusted(t *testing.T) {
	c := provider(t, func(http.ResponseWriter, *http.Request) { t.Error("asked") })
	c.CA = secret.Ref{}
	if _, err := c.Token(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v", err)
	}
	for _, url := range []string{"http://127.0.0.1/token", "file:///etc/passwd", "https://", "https://u:canary@host/", "https://ho st/canary", "canary"} {
		c.TokenURL = url
		if _, err := c.Token(t.Context()); err == nil || !strings.Contains(err.Error(), "TokenURL") || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: got %v", url, err)
		}
	}
}
