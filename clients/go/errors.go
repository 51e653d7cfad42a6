package meshlock

import "fmt"

// Error is an error of the API, or of the way to it.
type Error struct {
	// Code is one of the API's codes (docs/api.md), or "unreachable" if no node has answered.
	Code string
	// Message says what is wrong and what to do.
	Message string
	// RetryAfter is the number of seconds that the node asks to wait; 0 if it does not say.
	RetryAfter int
}

func (e *Error) Error() string { return "meshlock: " + e.Message }

// Is makes errors.Is(err, ErrBusy) true for every error with the same code.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Code == e.Code
}

// Errors to compare with, by errors.Is.
var (
	// ErrBusy: someone else holds the lock, and the caller did not want to wait.
	ErrBusy error = &Error{Code: "busy", Message: "someone else holds the lock"}
	// ErrTimedOut: someone else had the lock until the time was over.
	ErrTimedOut error = &Error{Code: "timed_out", Message: "the lock was not granted in time"}
	// ErrDeadlock: the request was the youngest one of a deadlock between locks, and the lock's rule says that it does not wait.
	ErrDeadlock error = &Error{Code: "deadlock", Message: "the lock is part of a deadlock"}
	// ErrUnavailable: the cluster cannot say who holds the lock.
	ErrUnavailable error = &Error{Code: "unavailable", Message: "the cluster cannot say who holds the lock"}
	// ErrUnreachable: no node has answered.
	ErrUnreachable error = &Error{Code: "unreachable", Message: "no node answers"}
	// ErrLost: the lock is lost, or may be lost.
	ErrLost error = &Error{Code: "lost", Message: "the lock is lost"}
	// ErrReleased: the lock was released by this program.
	ErrReleased error = &Error{Code: "released", Message: "the lock was released"}
)

func lost(format string, arguments ...any) *Error {
	return &Error{Code: "lost", Message: fmt.Sprintf(format, arguments...)}
}

// mayWorkElsewhere says whether another node, or the same one later, may answer otherwise.
func mayWorkElsewhere(err *Error) bool {
	switch err.Code {
	case "unreachable", "unavailable", "other_site", "too_many", "too_fast", "too_slow", "not_understood":
		return true
	}
	return false
}
