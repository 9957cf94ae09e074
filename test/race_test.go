//go:build race

package test

// underRace: everything takes many times as long.
const underRace = true
