package main

import (
	"context"
	"fmt"
	"time"

	"meshlock"
)

// leader leads for one term, or until it is not the leader any more.
func leader(ctx context.Context, client *meshlock.Client, _ string, turn int) error {
	leadership, err := client.Elect(ctx, "examples/leader", fmt.Sprint("candidate of Go, term ", turn))
	if err != nil {
		return err
	}
	defer leadership.Release(ctx)
	defer watch(leadership)()
	select {
	case <-time.After(100 * time.Millisecond): // its work
		fmt.Println("done leader")
		return nil
	case <-leadership.Lost():
		return leadership.Err()
	}
}
