// Package services finds the servers that scripts/services started, or that the environment names, and starts others
// for a single test.
//
// Where a server is missing, a test is skipped and noted for the closing summary of scripts/test; with
// PAWL_REQUIRE_SERVICES=1 it fails instead.
package services

import (
	"os"
	"strings"
	"testing"
)

// Address returns where a service is found, or ends the test for want of it.
func Address(t testing.TB, service string) string {
	t.Helper()
	variable := variable(service)
	if value := os.Getenv(variable); value != "" {
		return value
	}
	missing(t, service, variable+` is not set; run "make test", or "scripts/services up" and then eval "$(scripts/services env)"`)
	return ""
}

// variable is the name of the one that says where a service is.
func variable(service string) string { return "PAWL_TEST_" + strings.ToUpper(service) }

// missing ends the test for want of a service.
func missing(t testing.TB, service, why string) {
	t.Helper()
	if os.Getenv("PAWL_REQUIRE_SERVICES") == "1" {
		t.Fatalf("no %s: %s", service, why)
	}
	note(t, service)
	t.Skipf("no %s: %s", service, why)
}

// note appends to the file from which scripts/test lists what was not exercised. One write, because test processes
// share the file.
func note(t testing.TB, service string) {
	t.Helper()
	path := os.Getenv("PAWL_TEST_SKIPS")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatalf("note the skipped test: %v", err)
	}
	defer f.Close()
	if _, err := f.WriteString(service + "\t" + t.Name() + "\n"); err != nil {
		t.Fatalf("note the skipped test: %v", err)
	}
}
