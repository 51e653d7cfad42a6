import { Held } from "../src/index.js";

/**
 * Notes for how long this program believes in its lock. At the end of the block it prints the lock, its fence, the permit's number, and the
 * first and the last moment at which the client said that the lock is held, in microseconds. Tests look whether such times of different
 * programs overlap.
 */
export function watch(held: Held): Disposable {
  // The clock tells whole milliseconds, rounded down: this begins before `from`, and may end before it, too.
  const from = (Date.now() + 1) * 1000;
  let until = 0;
  const look = () => {
    // The time is taken before the question: the lock was held then if it is held now.
    const at = Date.now() * 1000;
    if (!held.isLost()) {
      until = at;
    }
  };
  const timer = setInterval(look, 5);
  return {
    [Symbol.dispose]() {
      clearInterval(timer);
      look();
      console.log("held", held.name, held.fence.toString(), held.slot ?? 0, from, until);
    },
  };
}
