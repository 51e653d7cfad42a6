/** How a session is kept, moved and lost, with nodes that behave as a test says. */
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { skip } from "../src/clock.js";
import { Client, Held, LostError, MeshlockError, ReleasedError, UnavailableError, UnreachableError } from "../src/index.js";
import { backoff } from "../src/places.js";
import { Behaviour, FakeCluster, FakeNode, hangs, leaves, refuse } from "./fake.js";

const clusters: FakeCluster[] = [];
const clients: Client[] = [];

afterEach(() => {
  clients.splice(0).forEach((client) => client.close());
  clusters.splice(0).forEach((cluster) => cluster.end());
});

async function start(safeMs: number, nodes: number): Promise<{ cluster: FakeCluster; nodes: FakeNode[]; client: Client }> {
  const cluster = new FakeCluster(safeMs);
  clusters.push(cluster);
  await cluster.start(nodes);
  const client = cluster.client();
  clients.push(client);
  return { cluster, nodes: cluster.nodes, client };
}

/** Waits until something is so, and no longer than a minute. */
async function eventually(what: string, is: () => boolean): Promise<void> {
  const end = Date.now() + 60_000;
  while (!is()) {
    assert.ok(Date.now() < end, `not within a minute: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const untilLost = (held: Held) => eventually("the lock is lost", () => held.signal.aborted);

test("a fence is exact beyond what a number holds", async () => {
  const { client } = await start(60_000, 1);
  const held = await client.lock("jobs");
  assert.equal(held.fence, 9007199254740993n);
  assert.equal(held.slot, 0);
  assert.ok(held.safeForMs > 0);
  await held.release();
  await held.release();
  assert.ok(held.why instanceof ReleasedError && held.isLost() && held.safeForMs === 0);
});

const troubles: Record<string, Behaviour> = {
  "is leaving": leaves,
  "does not answer": hangs,
  "is another site": (_, response) => refuse(response, 412, "other_site"),
  "is no node": (_, response) => (response.writeHead(502).end("<html>"), true),
};
for (const [what, trouble] of Object.entries(troubles)) {
  test(`a session goes on at another place when its own ${what}`, async () => {
    const { cluster, nodes, client } = await start(4000, 2);
    const held = await client.lock("jobs");
    nodes[0]!.behaviour = trouble;
    await eventually("the second node is asked for it", () => nodes[1]!.seen.includes("POST /v1/sessions/s1/keep-alive"));
    await eventually("it is safe for longer", () => held.safeForMs > 3000);
    assert.ok(!held.isLost());
    await held.release();
    assert.deepEqual(cluster.deleted, ["s1"]);
  });
}

test("a node that is gone is passed over", async () => {
  const { nodes, client } = await start(4000, 2);
  const held = await client.lock("jobs");
  nodes[0]!.end();
  await eventually("the second node is asked", () => nodes[1]!.seen.length > 0);
  const again = await client.lock("jobs");
  assert.ok(!held.isLost() && !again.isLost());
});

test("a lock that nobody confirms is lost before its time is over, and stays lost", async () => {
  const { nodes, client } = await start(600, 2);
  const held = await client.lock("jobs");
  nodes[0]!.behaviour = hangs;
  nodes[1]!.behaviour = leaves;
  await untilLost(held);
  assert.ok(held.isLost() && held.why instanceof LostError);
  assert.match(held.why.message, /no node has confirmed the lock in time|for longer than the lock was safe/);
  nodes.forEach((node) => (node.behaviour = undefined));
  assert.equal((await client.lock("jobs")).isLost(), false);
  assert.ok(held.isLost());
  await assert.rejects(held.release(), LostError);
});

test("an answer that comes after the time revives nothing", async () => {
  const { cluster, nodes, client } = await start(4000, 1);
  const held = await client.lock("jobs");
  nodes[0]!.behaviour = () => {
    // As if the machine had been suspended while the answer was on its way.
    nodes[0]!.behaviour = undefined;
    skip(3_600_000);
    return false;
  };
  await untilLost(held);
  assert.ok(held.isLost());
  await eventually("others need not wait", () => cluster.deleted.includes("s1"));
});

test("the safe time is counted from when the request was sent", async () => {
  const { nodes, client } = await start(4000, 1);
  const held = await client.lock("jobs");
  nodes[0]!.behaviour = () => {
    // The answer is on its way for more than half of the time.
    nodes[0]!.behaviour = undefined;
    skip(2500);
    return false;
  };
  const confirmations = () => nodes[0]!.seen.filter((request) => request.endsWith("/keep-alive")).length;
  await eventually("it is confirmed", () => confirmations() > 0);
  await eventually("it is confirmed again", () => {
    const again = confirmations() > 1;
    assert.ok(again || held.safeForMs <= 1500, `${held.safeForMs} ms`);
    return again;
  });
  assert.ok(!held.isLost());
});

test("an answer that promises more after the time revives nothing", async () => {
  const { nodes, client } = await start(4000, 1);
  const held = await client.lock("jobs");
  skip(2000);
  nodes[0]!.behaviour = () => {
    // The first promise ends while the answer is on its way, whose own would end later.
    nodes[0]!.behaviour = undefined;
    skip(1500);
    return false;
  };
  await untilLost(held);
  assert.ok(held.why instanceof LostError);
});

test("a program that wakes up knows at once that its time is over", async () => {
  const { client } = await start(60_000, 1);
  const held = await client.lock("jobs");
  assert.ok(!held.isLost());
  skip(3_600_000);
  assert.ok(held.isLost() && held.signal.aborted && held.signal.reason instanceof LostError);
});

test("a session that the nodes do not know is lost at once, and so is one without the lock", async () => {
  const { cluster, client } = await start(4000, 2);
  const [unknown, without] = [await client.lock("a"), await client.lock("b")];
  cluster.sessions.delete("s1");
  cluster.sessions.set("s2", ["another"]);
  await untilLost(unknown);
  await untilLost(without);
  assert.match(unknown.why!.message, /no_session/);
  assert.match(without.why!.message, /does not hold/);
});

test("a call that is given up leaves nothing behind", async () => {
  const { cluster, nodes, client } = await start(60_000, 1);
  const controller = new AbortController();
  nodes[0]!.behaviour = (request) => {
    const waits = request.url!.endsWith("/acquire");
    if (waits) {
      controller.abort(new Error("no more"));
    }
    return waits;
  };
  await assert.rejects(client.lock("jobs", { signal: controller.signal }), /no more/);
  assert.deepEqual(cluster.deleted, ["s1"]);
  await assert.rejects(client.lock("jobs", { signal: controller.signal }), /no more/);
});

test("an outage is reported as one", async () => {
  const { nodes, client } = await start(60_000, 2);
  nodes.forEach((node) => (node.behaviour = leaves));
  await assert.rejects(client.tryLock("jobs"), UnavailableError);
  await assert.rejects(client.lock("jobs", { waitMs: 50 }), UnavailableError);
  await assert.rejects(new Client("http://127.0.0.1:1", { retryForMs: 1 }).lock("jobs"), UnreachableError);
  setTimeout(() => (nodes[1]!.behaviour = undefined), 1);
  await (await client.lock("jobs")).release();
});

test("a redirection is not followed", async () => {
  const { cluster, nodes } = await start(60_000, 2);
  nodes[0]!.behaviour = (request, response) => (response.writeHead(307, { location: nodes[1]!.url + request.url }).end(), true);
  const client = new Client(cluster.nodes[0]!.url, { token: "secret", retryForMs: 1 });
  clients.push(client);
  await assert.rejects(client.lock("jobs"), MeshlockError);
  assert.deepEqual(nodes[1]!.seen, []);
});

test("a lock is released at the end of a block, and its name may have any letters", async () => {
  const { cluster, client } = await start(60_000, 1);
  {
    await using held = await client.lock("a/b ü..");
    assert.deepEqual(cluster.sessions.get("s1"), ["a/b ü.."]);
    assert.ok(!held.isLost());
  }
  assert.deepEqual(cluster.deleted, ["s1"]);
});

test("nonsense is refused", () => {
  for (const nonsense of ["", " , ", "ftp://x", "http://", "http://host/path", "http://u:p@host", "http://a?b"]) {
    assert.throws(() => new Client(nonsense), TypeError, nonsense);
  }
  assert.throws(() => new Client("a", { token: "two words" }), TypeError);
});

test("pauses grow and stay bounded", () => {
  for (let failures = 0; failures < 100; failures++) {
    const pause = backoff(failures, 1000);
    assert.ok(pause > 0 && pause <= 1000, `${failures}: ${pause}`);
  }
  assert.ok(backoff(0, 1000) <= 25);
});
