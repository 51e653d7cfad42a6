package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"meshlock"
)

// database changes a row that remembers the largest fence, and refuses smaller ones. Go's standard library has no SQLite, so this asks the
// program sqlite3; with a driver the statement is the same.
func database(ctx context.Context, client *meshlock.Client, dir string, _ int) error {
	held, err := client.Lock(ctx, "examples/database")
	if err != nil {
		return err
	}
	defer held.Release(ctx)
	defer watch(held)()
	update := fmt.Sprintf("UPDATE account SET balance = balance + 1, fence = %d WHERE id = 1 AND fence <= %d; SELECT changes();",
		held.Fence(), held.Fence())
	changed, err := sqlite(ctx, filepath.Join(dir, "bank.db"), update)
	if err != nil {
		return err
	}
	if changed != "1" {
		return meshlock.ErrLost // a later holder was here: the row is as it left it
	}
	fmt.Println("done database")
	return nil
}

func sqlite(ctx context.Context, file, statements string) (string, error) {
	out, err := exec.CommandContext(ctx, "sqlite3", "-cmd", ".timeout 10000", file, statements).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("sqlite3: %s: %w", out, err)
	}
	return strings.TrimSpace(string(out)), nil
}
