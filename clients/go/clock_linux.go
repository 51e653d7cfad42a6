package meshlock

import (
	"syscall"
	"time"
	"unsafe"
)

// clockBoottime is the number of the clock that counts since the start of the machine, including time in which it was suspended.
const clockBoottime = 7

// machineTime returns the time since the start of the machine.
func machineTime() time.Duration {
	var at syscall.Timespec
	_, _, failed := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&at)), 0)
	if failed != 0 {
		return sinceStart()
	}
	return time.Duration(at.Nano())
}
