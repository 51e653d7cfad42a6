/** Which of several places a client prefers, with nodes that behave as a test says. */
import assert from "node:assert/strict";
import { IncomingMessage, ServerResponse } from "node:http";
import { afterEach, test } from "node:test";

import { Client, UnavailableError } from "../src/index.js";
import { EQUALLY_NEAR, Race } from "../src/race.js";
import { Behaviour, FakeCluster, FakeNode, hangs, leaves } from "./fake.js";

const ends: (() => void)[] = [];

afterEach(() => ends.splice(0).forEach((end) => end()));

async function start(count: number): Promise<{ nodes: FakeNode[]; client: Client; takeTurn: () => Promise<void> }> {
  const cluster = new FakeCluster(60_000);
  const nodes = await cluster.start(count);
  const client = cluster.client();
  ends.push(() => client.close(), () => cluster.end());
  return { nodes, client, takeTurn: async () => (await client.lock("jobs")).release() };
}

const isQuestion = (request: IncomingMessage) => request.url === "/readyz";

/** Says at once that the node is ready, whatever the others do, and answers everything else. */
const ready: Behaviour = (request, response) => isQuestion(request) && (response.writeHead(200).end("{}"), true);
const unready: Behaviour = (request, response) => isQuestion(request) && leaves(request, response);

/** Does not say whether the node is ready, and answers everything else. The promise is settled when the client has given up. */
function silent(): { behaviour: Behaviour; gaveUp: Promise<void> } {
  let settle = () => {};
  const gaveUp = new Promise<void>((resolve) => (settle = resolve));
  const behaviour = (request: IncomingMessage, response: ServerResponse) => isQuestion(request) && (response.on("close", settle), true);
  return { behaviour, gaveUp };
}

test("a place that answers is preferred to one that does not, whose question is cancelled", async () => {
  const { nodes: [first, second], takeTurn } = await start(2);
  const { behaviour, gaveUp } = silent();
  [first!.behaviour, second!.behaviour] = [behaviour, ready];
  await takeTurn();
  await gaveUp;
  await takeTurn();
  assert.deepEqual(first!.seen, []);
  // Each place is asked once, while the preferred one is well.
  assert.deepEqual([first!.asked, second!.asked], [1, 1]);
});

test("a place that is not ready is passed over, and all are asked anew when the preferred one fails", async () => {
  const { nodes: [first, second, third], takeTurn } = await start(3);
  [first!.behaviour, second!.behaviour, third!.behaviour] = [unready, ready, silent().behaviour];
  await takeTurn();
  first!.behaviour = ready;
  await takeTurn();
  assert.deepEqual([first!.asked, first!.seen, third!.seen], [1, [], []]);
  // The next one serves this time.
  second!.behaviour = leaves;
  await takeTurn();
  assert.deepEqual([first!.asked, first!.seen], [1, []]);
  assert.notDeepEqual(third!.seen, []);
  await takeTurn();
  assert.equal(first!.asked, 2);
  assert.notDeepEqual(first!.seen, []);
});

test("a single place is not asked", async () => {
  const { nodes: [only], client, takeTurn } = await start(1);
  await takeTurn();
  only!.behaviour = leaves;
  await assert.rejects(client.tryLock("jobs"), UnavailableError);
  assert.equal(only!.asked, 0);
});

test("many calls ask each place once", async () => {
  const { nodes: [first, second], takeTurn } = await start(2);
  await Promise.all(Array.from({ length: 8 }, takeTurn));
  assert.equal(first!.asked, 1);
  assert.ok(second!.asked <= 1);
});

test("a call that is given up while places are asked ends", async () => {
  const { nodes, client } = await start(2);
  const controller = new AbortController();
  nodes[0]!.behaviour = () => (controller.abort(new Error("no more")), true);
  nodes[1]!.behaviour = hangs;
  await assert.rejects(client.lock("jobs", { signal: controller.signal }), /no more/);
  assert.deepEqual(nodes.map((node) => node.seen), [[], []]);
});

test("the race decides as the page says", () => {
  const decides = (race: Race, until: number | undefined, ...order: number[]) => {
    assert.deepEqual([race.waitsUntil(), race.order()], [until, order]);
  };
  // The first of the list is taken as soon as it serves.
  const first = new Race(3, 7000);
  decides(first, 8000, 0, 1, 2);
  first.onAnswer(0, true, 7300);
  decides(first, undefined, 0, 1, 2);
  // A place that answers much later comes later.
  const later = new Race(3, 7000);
  later.onAnswer(2, true, 7005);
  decides(later, 7005 + EQUALLY_NEAR, 2, 0, 1);
  later.onAnswer(0, true, 7006 + EQUALLY_NEAR);
  decides(later, 7005 + EQUALLY_NEAR, 2, 0, 1);
  // Among places that are equally near the list decides.
  const near = new Race(3, 7000);
  near.onAnswer(2, true, 7005);
  near.onAnswer(1, true, 7005 + EQUALLY_NEAR);
  decides(near, 7005 + EQUALLY_NEAR, 1, 2, 0);
  near.onAnswer(0, false, 7006);
  decides(near, undefined, 1, 2, 0);
  // Places that fail come last, and if all do nothing is waited for.
  const none = new Race(3, 7000);
  none.onAnswer(0, false, 7001);
  none.onAnswer(1, false, 7001);
  decides(none, 8000, 2, 0, 1);
  none.onAnswer(2, false, 7001);
  decides(none, undefined, 0, 1, 2);
});
