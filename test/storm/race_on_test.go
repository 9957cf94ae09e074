//go:build !synctests && race

package storm

const raceEnabled = true
