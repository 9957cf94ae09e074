package main

import "syscall"

// inMemory reports whether a folder is on a file system that has no disk under it.
func inMemory(dir string) bool {
	const tmpfs, ramfs = 0x01021994, 0x858458f6
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return false // another machine's, or not ours to look at
	}
	return s.Type == tmpfs || s.Type == ramfs
}
