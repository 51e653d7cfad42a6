import { setTimeout } from "node:timers/promises";

import { Client } from "../src/index.js";
import { watch } from "./watch.js";

/** Uses one of three connections. The permit's number says which. */
export async function pool(client: Client): Promise<void> {
  await using permit = await client.semaphore("examples/pool", 3).acquire();
  using _ = watch(permit);
  try {
    await use(permit.slot!, permit.signal);
  } catch (error) {
    throw permit.why ?? error;
  }
}

/** Works with a connection until it is done or the signal is given. */
async function use(connection: number, signal: AbortSignal): Promise<void> {
  await setTimeout(10, undefined, { signal });
  console.log("done pool", connection);
}
