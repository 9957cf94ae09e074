//go:build !linux

package main

import "github.com/rogpeppe/go-internal/testscript"

func cmdLimited(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Fatalf("a command can be kept from root's rights on Linux alone: guard the script with [!linux] skip")
}
