// Holds a lock with etcd's client for Go and says on CLOCK_MONOTONIC, in nanoseconds, when it has it and when its session is done.
//
//	session ENDPOINTS LOCK
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
)

func say(what string) {
	const monotonic = 1
	var time syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&time)), 0)
	fmt.Println(what, time.Nano())
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(os.Args[1], ",")})
	fail(err)
	// Its time to live is the default: 60 seconds.
	session, err := concurrency.NewSession(client)
	fail(err)
	fail(concurrency.NewMutex(session, os.Args[2]).Lock(context.Background()))
	say("held")
	<-session.Done()
	say("lost")
	// The test ends it.
	select {}
}
