/** Which of several places is the nearest: it is decided by when each of them has answered the same question. It does no I/O. */

/** How long an answer is waited for while no place has given a good one, in milliseconds. */
const ANSWER_WITHIN = 1000;

/** Places that answer within this time of the first one are equally near, in milliseconds. Between them the order of the list decides. */
export const EQUALLY_NEAR = 10;

/** Places that were asked at the same time, and their answers. */
export class Race {
  readonly #asked: number;
  /** Whether a place serves, and when it said so; `undefined` if it has not answered. */
  readonly #answers: ({ serves: boolean; at: number } | undefined)[];

  constructor(places: number, asked: number) {
    this.#asked = asked;
    this.#answers = Array.from({ length: places }, () => undefined);
  }

  /** Notes that a place serves, or that it cannot be used. */
  onAnswer(place: number, serves: boolean, at: number): void {
    this.#answers[place] = { serves, at };
  }

  /** Returns until when further answers are to be waited for; `undefined` if those that are there decide. */
  waitsUntil(): number | undefined {
    const nearUntil = this.#nearUntil();
    const needed = nearUntil === undefined ? this.#answers : this.#answers.slice(0, this.order()[0]);
    return needed.every((answer) => answer !== undefined) ? undefined : (nearUntil ?? this.#asked + ANSWER_WITHIN);
  }

  /**
   * Returns all places in the order in which they are preferred: those that are near as listed, others in the order of their answers, then
   * those that have not answered, and in the end those that have failed.
   */
  order(): number[] {
    const nearUntil = this.#nearUntil();
    const rank = (place: number): [number, number] => {
      const answer = this.#answers[place];
      if (answer === undefined) {
        return [2, 0];
      }
      if (!answer.serves) {
        return [3, 0];
      }
      return nearUntil !== undefined && answer.at <= nearUntil ? [0, 0] : [1, answer.at];
    };
    const places = this.#answers.map((_, place) => ({ place, rank: rank(place) }));
    places.sort((a, b) => a.rank[0] - b.rank[0] || a.rank[1] - b.rank[1]);
    return places.map(({ place }) => place);
  }

  /** Returns until when a place has to answer to be as near as the first one; `undefined` while none serves. */
  #nearUntil(): number | undefined {
    const times = this.#answers.flatMap((answer) => (answer?.serves === true ? [answer.at] : []));
    return times.length === 0 ? undefined : Math.min(...times) + EQUALLY_NEAR;
  }
}
