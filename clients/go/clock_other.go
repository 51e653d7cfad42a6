//go:build !linux

package meshlock

import "time"

// machineTime returns the time since some fixed moment.
func machineTime() time.Duration { return sinceStart() }
