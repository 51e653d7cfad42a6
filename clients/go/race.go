package meshlock

import (
	"sort"
	"time"
)

const (
	// readyWithin is how long an answer is waited for while no place has given a good one.
	readyWithin = time.Second
	// equallyNear is the time within which places answer that are as near as the first one. Between them the order of the list decides.
	equallyNear = 10 * time.Millisecond
)

// race decides which of several places is the nearest, by when each of them has answered the same question. It does no I/O.
type race struct {
	asked   time.Duration
	answers []readyAnswer
}

// readyAnswer is what a place has answered; the zero value if nothing.
type readyAnswer struct {
	known, serves bool
	at            time.Duration
}

func newRace(places int, asked time.Duration) *race {
	return &race{asked: asked, answers: make([]readyAnswer, places)}
}

func (r *race) onAnswer(place int, serves bool, at time.Duration) {
	r.answers[place] = readyAnswer{known: true, serves: serves, at: at}
}

// nearUntil returns until when a place has to answer to be as near as the first one, if one serves.
func (r *race) nearUntil() (until time.Duration, serves bool) {
	for _, answer := range r.answers {
		if answer.serves && (!serves || answer.at+equallyNear < until) {
			until, serves = answer.at+equallyNear, true
		}
	}
	return until, serves
}

// allKnown says whether all of the first `count` places have answered.
func (r *race) allKnown(count int) bool {
	for _, answer := range r.answers[:count] {
		if !answer.known {
			return false
		}
	}
	return true
}

// waitsUntil returns until when further answers are to be waited for; false if those that are there decide.
func (r *race) waitsUntil() (until time.Duration, waits bool) {
	until, serves := r.nearUntil()
	if !serves {
		return r.asked + readyWithin, !r.allKnown(len(r.answers))
	}
	return until, !r.allKnown(r.order()[0])
}

// order returns all places in the order in which they are preferred: those that are near as listed, others in the order of their answers,
// then those that have not answered, and in the end those that have failed.
func (r *race) order() []int {
	nearUntil, _ := r.nearUntil()
	rank := func(place int) (class int, at time.Duration) {
		switch answer := r.answers[place]; {
		case answer.serves && answer.at <= nearUntil:
			return 0, 0
		case answer.serves:
			return 1, answer.at
		case !answer.known:
			return 2, 0
		default:
			return 3, 0
		}
	}
	order := make([]int, len(r.answers))
	for place := range order {
		order[place] = place
	}
	sort.SliceStable(order, func(i, j int) bool {
		first, at := rank(order[i])
		second, later := rank(order[j])
		return first < second || (first == second && at < later)
	})
	return order
}
