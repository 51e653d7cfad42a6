package main

import (
	"fmt"
	"time"

	"meshlock"
)

// watch notes for how long this program believes in its lock. The function that it returns prints it: the lock, its fence, the permit's
// number, and the first and the last moment at which the client said that the lock is held, in microseconds. Tests look whether such
// times of different programs overlap.
func watch(held *meshlock.Held) (stop func()) {
	from := time.Now().UnixMicro()
	until, ended, stopped := from, make(chan struct{}), make(chan struct{})
	look := func() {
		// The time is taken before the question: the lock was held then if it is held now.
		if at := time.Now().UnixMicro(); !held.IsLost() {
			until = at
		}
	}
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				return
			case <-held.Lost():
				return
			case <-ticker.C:
				look()
			}
		}
	}()
	return func() {
		close(ended)
		<-stopped
		look()
		slot, _ := held.Slot()
		fmt.Println("held", held.Name(), held.Fence(), slot, from, until)
	}
}
