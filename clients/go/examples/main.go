// The five examples that all clients share, and which docs/clients.md shows side by side. The nodes' addresses are in MESHLOCK_API.
//
//	go run ./examples counter DIR 10 0
//
// takes ten turns of one of them, with its files in DIR; the last number is that of the first job of `once`.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"meshlock"
)

var examples = map[string]func(ctx context.Context, client *meshlock.Client, dir string, turn int) error{
	"counter":  counter,
	"leader":   leader,
	"pool":     pool,
	"once":     once,
	"database": database,
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) != 4 || examples[arguments[0]] == nil {
		return errors.New("usage: examples counter|leader|pool|once|database DIR TURNS FIRST")
	}
	turns, bad := strconv.Atoi(arguments[2])
	first, worse := strconv.Atoi(arguments[3])
	if bad != nil || worse != nil {
		return errors.New("TURNS and FIRST are numbers")
	}
	client, err := meshlock.New(os.Getenv("MESHLOCK_API"), meshlock.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	for turn := first; turn < first+turns; {
		err := examples[arguments[0]](context.Background(), client, arguments[1], turn)
		if err == nil {
			turn++
		} else if !errors.Is(err, meshlock.ErrLost) {
			return err
		}
		// A turn whose lock was lost is taken again.
	}
	return nil
}
