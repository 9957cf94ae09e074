package main

import (
	"archive/zip"
	"fmt"
	"io"

	"github.com/rogpeppe/go-internal/testscript"
)

// unzip FILE: the names and contents of a zip file, to stdout.
func cmdUnzip(ts *testscript.TestScript, _ bool, args []string) {
	r, err := zip.OpenReader(ts.MkAbs(args[0]))
	ts.Check(err)
	defer r.Close()
	for _, f := range r.File {
		fmt.Fprintf(ts.Stdout(), "== %s\n", f.Name)
		in, err := f.Open()
		ts.Check(err)
		_, err = io.Copy(ts.Stdout(), in)
		ts.Check(err)
		in.Close()
	}
}
