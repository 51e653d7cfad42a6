package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"meshlock"
)

// counter adds 1 to the number in a file.
func counter(ctx context.Context, client *meshlock.Client, dir string, _ int) error {
	held, err := client.Lock(ctx, "examples/counter")
	if err != nil {
		return err
	}
	defer held.Release(ctx)
	defer watch(held)()
	file := filepath.Join(dir, "counter")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", []byte(fmt.Sprintln(number+1)), 0o600); err != nil {
		return err
	}
	// Before the step that cannot be undone: is the lock still held?
	if held.IsLost() {
		return held.Err()
	}
	if err := os.Rename(file+".new", file); err != nil {
		return err
	}
	fmt.Println("done counter")
	return nil
}
