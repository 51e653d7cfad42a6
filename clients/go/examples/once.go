package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"meshlock"
)

// once does a job that many programs want done, and of which one does it.
func once(ctx context.Context, client *meshlock.Client, dir string, turn int) error {
	held, err := client.Lock(ctx, "examples/once")
	if err != nil {
		return err
	}
	defer held.Release(ctx)
	defer watch(held)()
	marker := filepath.Join(dir, fmt.Sprint("job-", turn))
	if _, err := os.Stat(marker); err == nil {
		return nil // somebody has done it
	}
	if held.IsLost() {
		return held.Err()
	}
	fmt.Println("done once", turn) // the job
	return os.WriteFile(marker, nil, 0o600)
}
