/** The client at a running node, whose API has the address MESHLOCK_API. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

import { BusyError, Client, LostError, MeshlockError, TimedOutError } from "../src/index.js";

const api = process.env["MESHLOCK_API"];
const options = { skip: api === undefined && "MESHLOCK_API names no node" };
const client = new Client(api ?? "127.0.0.1:1", { label: "the tests of TypeScript" });
after(() => client.close());

test("a lock excludes others and is free afterwards", options, async () => {
  const first = await client.lock("ts/one");
  await assert.rejects(client.tryLock("ts/one"), BusyError);
  await assert.rejects(client.lock("ts/one", { waitMs: 50 }), TimedOutError);
  await first.release();
  const second = await client.tryLock("ts/one");
  assert.ok(second.fence > first.fence);
  await second.release();
});

test("tasks count under a lock and lose nothing", options, async () => {
  let [count, inside] = [0, 0];
  const work = async () => {
    for (let turn = 0; turn < 10; turn++) {
      await using _ = await client.lock("ts/counter");
      assert.equal(++inside, 1);
      const read = count;
      await new Promise((resolve) => setImmediate(resolve));
      count = read + 1;
      inside--;
    }
  };
  await Promise.all([work(), work(), work(), work()]);
  assert.equal(count, 40);
});

test("a semaphore lets as many in as it has permits", options, async () => {
  const pool = client.semaphore("ts/pool", 2);
  const [first, second] = [await pool.acquire(), await pool.acquire()];
  assert.deepEqual([first.slot, second.slot].sort(), [0, 1]);
  await assert.rejects(pool.tryAcquire(), BusyError);
  await assert.rejects(client.semaphore("ts/pool", 3).acquire(), (error: MeshlockError) => error.code === "permits");
  await first.release();
  await second.release();
});

test("a leader is known by its name", options, async () => {
  const leader = await client.elect("ts/leader", "alice");
  const holders = await client.holders("ts/leader");
  assert.deepEqual(holders.map(({ fence }) => fence), [leader.fence]);
  assert.match(holders[0]!.who, /alice/);
  await leader.release();
  assert.deepEqual(await client.holders("ts/leader"), []);
});

test("a lock that is broken is lost", options, async () => {
  const held = await client.lock("ts/broken");
  await client.breakLock("ts/broken");
  // A held lock does not keep a program from ending, so something else must.
  const alive = setInterval(() => undefined, 1000);
  if (!held.signal.aborted) {
    await once(held.signal, "abort");
  }
  clearInterval(alive);
  assert.ok(held.why instanceof LostError);
});

test("an unknown token is refused and not shown", options, async () => {
  const unknown = new Client(api!, { token: "secret-guess" });
  const is = (error: MeshlockError) => error.code === "unauthenticated" && !error.message.includes("secret");
  await assert.rejects(unknown.lock("ts/token"), is);
  unknown.close();
});

test("a program that is stopped knows it when it goes on", options, async () => {
  const program = spawn(process.execPath, [fileURLToPath(new URL("holder.js", import.meta.url)), "ts/stopped"], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  try {
    const lines = createInterface({ input: program.stdout })[Symbol.asyncIterator]();
    assert.equal((await lines.next()).value, "inside false");
    program.kill("SIGSTOP");
    // It does not keep its session alive now.
    const next = await client.lock("ts/stopped");
    program.stdin.write("go on\n");
    program.kill("SIGCONT");
    assert.equal((await lines.next()).value, "lost true");
    await next.release();
  } finally {
    program.kill("SIGKILL");
  }
});

test("a program that ends without releasing its lock is not kept from ending", options, async () => {
  const program = spawn(process.execPath, [fileURLToPath(new URL("holder.js", import.meta.url)), "ts/forgotten"], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  assert.deepEqual(await once(program, "exit"), [0, null]);
});
