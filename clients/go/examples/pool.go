package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"meshlock"
)

// pool uses one of three connections. The permit's number says which.
func pool(ctx context.Context, client *meshlock.Client, _ string, _ int) error {
	permit, err := client.Semaphore("examples/pool", 3).Acquire(ctx)
	if err != nil {
		return err
	}
	defer permit.Release(ctx)
	defer watch(permit)()
	connection, numbered := permit.Slot()
	if !numbered {
		return errors.New("the permits of this semaphore have no numbers")
	}
	work, stop := permit.Context(ctx)
	defer stop()
	return use(work, connection)
}

// use works with a connection until it is done or the context ends.
func use(ctx context.Context, connection int) error {
	select {
	case <-time.After(10 * time.Millisecond):
		fmt.Println("done pool", connection)
		return nil
	case <-ctx.Done():
		return meshlock.ErrLost
	}
}
