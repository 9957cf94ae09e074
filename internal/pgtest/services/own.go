package services

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// patience bounds each command. The first start of a service may have to fetch it.
const patience = 10 * time.Minute

// Own is a service that runs for one test only, which may therefore kill it: the tests of other packages, which run at
// the same time, share those of the environment.
type Own struct {
	Address string // as the environment would name it

	ctl string
}

// Start starts a service for the test, by its name in scripts/services, and stops it when the test ends. A service that
// cannot be had ends the test as [Address] does, and so does -short. settings, of the form NAME=value, are for the script.
func Start(t testing.TB, service string, settings ...string) *Own {
	t.Helper()
	if testing.Short() {
		missing(t, service, "one of the test's own is not started with -short")
	}
	script, err := script()
	if err != nil {
		t.Fatal(err)
	}
	// Named like the folder of a `scripts/services run`, the next of which stops what a test that was killed left behind.
	dir, err := os.MkdirTemp("", fmt.Sprintf("pawl-run.%d.%d.", os.Geteuid(), os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	// Run as root, the services have another user.
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	env := append(environment(dir, service), settings...)
	t.Cleanup(func() {
		if _, err := command(env, script, "down"); err != nil {
			t.Errorf("stop %s of the test: %v", service, err)
		}
		os.RemoveAll(dir)
	})
	if _, err := command(env, script, "up"); err != nil {
		t.Fatalf("start %s for the test: %v", service, err)
	}
	if reason, err := os.ReadFile(filepath.Join(dir, "missing")); err == nil && len(reason) > 0 {
		missing(t, service, strings.TrimSpace(string(reason)))
	}
	own := new(Own)
	for name, value := range map[string]*string{variable(service): &own.Address, variable(service) + "_CTL": &own.ctl} {
		out, err := command(env, "sh", "-c", `eval "$("$1" env)" && eval "printf %s \"\$$2\""`, "sh", script, name)
		if err != nil || out == "" {
			t.Fatalf("find %s of the test: %v", name, err)
		}
		*value = out
	}
	return own
}

// Shared returns the service that the environment names, if there is a way to kill it, and else nil. It is for services
// that nobody starts but to use them so.
func Shared(service string) *Own {
	own := &Own{Address: os.Getenv(variable(service)), ctl: os.Getenv(variable(service) + "_CTL")}
	if own.Address == "" || own.ctl == "" {
		return nil
	}
	return own
}

// Control ends the service or starts it again, with its data: "kill", "stop" or "start", and for a service of several
// nodes the number of one.
func (o *Own) Control(t testing.TB, args ...string) {
	t.Helper()
	if _, err := command(os.Environ(), "sh", append([]string{o.ctl}, args...)...); err != nil {
		t.Fatal(err)
	}
}

// script finds scripts/services above the folder of the test.
func script() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		path := filepath.Join(dir, "scripts", "services")
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
		if dir == filepath.Dir(dir) {
			err = errors.New("there is no scripts/services above the folder of the test")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// environment is this process's, without what would lead to other services than those of dir.
func environment(dir, service string) []string {
	var env []string
	for _, entry := range os.Environ() {
		install := strings.HasPrefix(entry, "PAWL_SERVICES_INSTALL=")
		if !strings.HasPrefix(entry, "PAWL_") || install {
			env = append(env, entry)
		}
	}
	return append(env, "PAWL_SERVICES_DIR="+dir, "PAWL_SERVICES="+service)
}

// command runs a command and returns what it printed. The services that it starts keep none of its files open.
func command(env []string, name string, args ...string) (string, error) {
	// Also called when the test's own context has ended.
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = env
	cmd.WaitDelay = 10 * time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
