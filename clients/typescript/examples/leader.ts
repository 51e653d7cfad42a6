import { setTimeout } from "node:timers/promises";

import { Client } from "../src/index.js";
import { watch } from "./watch.js";

/** How long a leader works: 100 ms, or what MESHLOCK_TERM says. */
const TERM = Number(process.env["MESHLOCK_TERM"] ?? 100);

/** Leads for one term, or until it is not the leader any more. */
export async function leader(client: Client, _dir: string, turn: number): Promise<void> {
  await using leadership = await client.elect("examples/leader", `candidate of TypeScript, term ${turn}`);
  using _ = watch(leadership);
  try {
    await setTimeout(TERM, undefined, { signal: leadership.signal }); // its work
  } catch {
    throw leadership.why!;
  }
  console.log("done leader");
}
