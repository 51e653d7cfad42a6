/** The client at a node with TLS, whose API has the address MESHLOCK_TLS_API, with the files of a client in MESHLOCK_TLS_FILES. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { Client, type Options, UnreachableError } from "../src/index.js";

const api = process.env["MESHLOCK_TLS_API"];
const options = { skip: api === undefined && "MESHLOCK_TLS_API names no node" };
const file = (name: string) => readFileSync(`${process.env["MESHLOCK_TLS_FILES"]}/${name}`);

/** Takes a lock with these credentials, and gives it back. */
async function lock(credentials: Options): Promise<void> {
  const client = new Client(api!, { ...credentials, retryForMs: 1 });
  try {
    const held = await client.tryLock("ts/tls");
    assert.equal(held.isLost(), false);
    await held.release();
  } finally {
    client.close();
  }
}

/** Whether an error says that no node could be used, and why. */
const saying = (why: RegExp) => (error: unknown) => error instanceof UnreachableError && why.test(error.message);

test("a lock is taken over TLS with a certificate", options, async () => {
  await lock({ ca: file("ca.pem"), cert: file("cert.pem"), key: file("key.pem") });
});

test("who shows no certificate is refused", options, async () => {
  await assert.rejects(lock({ ca: file("ca.pem") }), saying(/certificate required/));
});

test("a node of another authority is not trusted", options, async () => {
  await assert.rejects(lock({}), saying(/certificate/));
});
