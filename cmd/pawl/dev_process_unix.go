//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/pawlhq/pawl/internal/fault"
)

// withFaults has the process die where the spec says; "" is nowhere.
func withFaults(ctx context.Context, spec string) (context.Context, error) {
	if spec == "" {
		return ctx, nil
	}
	in, err := fault.FromEnv(spec)
	if err != nil {
		return nil, err
	}
	return fault.With(ctx, in), nil
}

// child is a process of dev.
type child struct {
	cmd    *exec.Cmd
	ended  chan struct{}
	stderr tail
}

// start runs this program with a hidden command. It is in a group of its own: Ctrl-C in the terminal is not for it.
func (d *devRun) start(command string, env ...string) (*child, error) {
	c := &child{cmd: exec.Command(d.self, command), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), "PAWL_STORE=", "PAWL_DEV_FILES="+d.playedFolder(), "PAWL_DEV_DB="+d.database(),
		"PAWL_DEV_KAFKA="+d.broker.Addrs()[0], "PAWL_DEV_NAIVE="+d.naiveFile(), "PAWL_DEV_OWN="+strconv.FormatBool(d.own()))
	c.cmd.Env = append(c.cmd.Env, env...)
	c.cmd.Stderr = &c.stderr
	// Nothing is ever written to it. It is open for as long as this process lives: see endWithParent.
	if _, err := c.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", command, err)
	}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", command, err)
	}
	go func() {
		defer close(c.ended)
		c.cmd.Wait() // how it ended is in ProcessState
	}()
	return c, nil
}

// kill ends it at once, if it has not ended.
func (c *child) kill() {
	c.cmd.Process.Kill()
	<-c.ended
}

// stop asks it to end in good order.
func (c *child) stop() error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", c.cmd.Args[1], err)
	}
	select {
	case <-c.ended:
	case <-time.After(30 * time.Second):
		return fmt.Errorf("%s does not stop: %s", c.cmd.Args[1], c.said())
	}
	if !c.cmd.ProcessState.Success() {
		return fmt.Errorf("%s did not stop in good order: %s: %s", c.cmd.Args[1], c.cmd.ProcessState, c.said())
	}
	return nil
}

// killed reports whether it was, after it has ended.
func (c *child) killed() bool {
	ws, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL
}

func (c *child) said() string { return c.stderr.String() }

// lockFile locks a file until it is closed, or the process ends. It is nil where another process holds it, which is told.
func lockFile(path string) (f *os.File, holder int, err error) {
	if f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return nil, 0, err
	}
	whole := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	err = syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &whole)
	if err == nil {
		return f, 0, nil
	}
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		err = syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &whole)
		holder = int(whole.Pid)
	}
	return nil, holder, errors.Join(err, f.Close())
}

// tail keeps the end of what is written to it.
type tail struct {
	mu sync.Mutex
	b  bytes.Buffer
}

const mostTail = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.b.Len() > mostTail {
		t.b.Next(t.b.Len() - mostTail/2)
	}
	return t.b.Write(p)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}
