package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// logs is stderr of a command that runs beside the test.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// process is pawl run, within the process of the test.
type process struct {
	t      *testing.T
	base   string // where its health is to be had
	stderr *logs
	cancel context.CancelFunc
	ended  chan int
}

// startRun begins to run a file. It is stopped with the test at the latest.
func startRun(t *testing.T, file string, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &process{t: t, stderr: &logs{}, cancel: cancel, ended: make(chan int, 1)}
	t.Cleanup(cancel)
	go func() {
		a := newApp(strings.NewReader(""), io.Discard, p.stderr)
		p.ended <- a.run(ctx, append([]string{"run", file, "--listen", "127.0.0.1:0"}, args...))
	}()
	address := regexp.MustCompile(`"address":"([^"]+)"`)
	await(t, p.stderr, "an address", func() bool {
		m := address.FindStringSubmatch(p.stderr.String())
		if m != nil {
			p.base = "http://" + m[1]
		}
		return m != nil
	})
	return p
}

// progress is how many records are settled over all partitions.
func (p *process) progress() (settled int64) {
	resp, err := http.Get(p.base + "/progress")
	if err != nil {
		p.t.Fatalf("%v: %s", err, p.stderr)
	}
	defer resp.Body.Close()
	var list struct{ Items []liveView }
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		p.t.Fatal(err)
	}
	for _, v := range list.Items {
		settled += v.Settled
	}
	return settled
}

// settles waits until so many records are settled.
func (p *process) settles(n int) {
	p.t.Helper()
	await(p.t, p.stderr, "the records to be settled", func() bool { return p.progress() >= int64(n) })
}

// stop stops it in good order.
func (p *process) stop() {
	p.t.Helper()
	p.cancel()
	select {
	case code := <-p.ended:
		if code != exitDone {
			p.t.Errorf("pawl run ended with exit code %d: %s", code, p.stderr)
		}
	case <-time.After(30 * time.Second):
		p.t.Fatalf("it does not stop: %s", p.stderr)
	}
}

// await waits until something is so.
func await(t *testing.T, stderr fmt.Stringer, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s: %s", what, stderr)
		}
	}
}
