package main

import (
	"context"
	"fmt"
	"os"
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
	case <-time.After(term()): // its work
		fmt.Println("done leader")
		return nil
	case <-leadership.Lost():
		return leadership.Err()
	}
}

// term is how long a leader works: 100 ms, or what MESHLOCK_TERM says.
func term() time.Duration {
	if term, err := time.ParseDuration(os.Getenv("MESHLOCK_TERM") + "ms"); err == nil {
		return term
	}
	return 100 * time.Millisecond
}
