"""Which of several places is the nearest: it is decided by when each of them has answered the same question. It does no I/O."""

from __future__ import annotations

from typing import List, Optional, Tuple

#: How long an answer is waited for while no place has given a good one, in seconds.
ANSWER_WITHIN = 1.0

#: Places that answer within this time of the first one are equally near, in seconds. Between them the order of the list decides.
EQUALLY_NEAR = 0.01

#: The question: whether a site grants locks.
QUESTION = "/readyz"


class Race:
    """Places that were asked at the same time, and their answers."""

    def __init__(self, places: int, asked: float) -> None:
        self._asked = asked
        #: Whether a place serves, and when it said so; `None` if it has not answered.
        self._answers: List[Optional[Tuple[bool, float]]] = [None] * places

    def on_answer(self, place: int, serves: bool, at: float) -> None:
        """Notes that a place serves, or that it cannot be used."""
        self._answers[place] = (serves, at)

    def waits_until(self) -> Optional[float]:
        """Returns until when further answers are to be waited for; `None` if those that are there decide."""
        near_until = self._near_until()
        missing = self._answers if near_until is None else self._answers[: self.order()[0]]
        if all(answer is not None for answer in missing):
            return None
        return self._asked + ANSWER_WITHIN if near_until is None else near_until

    def order(self) -> List[int]:
        """Returns all places in the order in which they are preferred.

        Those that are near come as listed, others in the order of their answers, then those that have not answered, and in the end those that
        have failed.
        """
        near_until = self._near_until()

        def rank(place: int) -> Tuple[int, float]:
            answer = self._answers[place]
            if answer is None:
                return 2, 0.0
            serves, at = answer
            if not serves:
                return 3, 0.0
            return (0, 0.0) if near_until is not None and at <= near_until else (1, at)

        return sorted(range(len(self._answers)), key=rank)

    def _near_until(self) -> Optional[float]:
        """Returns until when a place has to answer to be as near as the first one; `None` while none serves."""
        times = [answer[1] for answer in self._answers if answer is not None and answer[0]]
        return min(times) + EQUALLY_NEAR if times else None
