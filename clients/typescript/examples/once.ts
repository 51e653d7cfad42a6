import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { Client } from "../src/index.js";
import { watch } from "./watch.js";

/** Does a job that many programs want done, and of which one does it. */
export async function once(client: Client, dir: string, turn: number): Promise<void> {
  await using held = await client.lock("examples/once");
  using _ = watch(held);
  const marker = join(dir, `job-${turn}`);
  if (existsSync(marker)) {
    return; // somebody has done it
  }
  if (held.isLost()) {
    throw held.why!;
  }
  console.log("done once", turn); // the job
  writeFileSync(marker, "");
}
