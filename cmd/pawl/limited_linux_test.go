package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// limited N command args…: the command ends with exit code N, and has to heed the modes of files, also where the tests are
// run by root. What it says is compared with "cmp stdout" and the like of its files limited.out and limited.err.
func cmdLimited(ts *testscript.TestScript, _ bool, args []string) {
	var out, errs bytes.Buffer
	ended := make(chan error)
	go func() {
		// The thread is never given back: it has fewer rights than others, and its children inherit that.
		runtime.LockOSThread()
		const capBSetDrop, dacOverride, dacReadSearch = 24, 1, 2
		if os.Geteuid() == 0 {
			for _, right := range []uintptr{dacOverride, dacReadSearch} {
				if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, capBSetDrop, right, 0); errno != 0 {
					ended <- errno
					return
				}
			}
		}
		path, err := exec.LookPath(args[1])
		if err != nil {
			ended <- err
			return
		}
		cmd := exec.Command(path, args[2:]...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = ts.Getenv("WORK"), &out, &errs
		cmd.Env = append(os.Environ(), "HOME="+ts.Getenv("WORK"), "PAWL_STORE="+ts.Getenv("PAWL_STORE"), "KAFKA="+ts.Getenv("KAFKA"))
		ended <- cmd.Run()
	}()
	err := <-ended
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	ts.Check(os.WriteFile(ts.MkAbs("limited.out"), out.Bytes(), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("limited.err"), errs.Bytes(), 0o600))
	ts.Logf("%s%s", out.String(), errs.String())
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}
