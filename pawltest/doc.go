// Package pawltest tests handlers: against a real store, with a scripted log, and with a crash in every window.
//
//	pawltest.Run(t, store, dec, handler,
//		pawltest.JSON(Payment{ID: "e1", Amount: 5}),
//		pawltest.JSON(Payment{ID: "e1", Amount: 5}),
//	).Want(pawl.Applied, pawl.Duplicate)
//
// It runs the real engine: what passes here is what happens in production, but for the broker.
package pawltest
