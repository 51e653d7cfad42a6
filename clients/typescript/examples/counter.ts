import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { Client } from "../src/index.js";
import { watch } from "./watch.js";

/** Adds 1 to the number in a file. */
export async function counter(client: Client, dir: string): Promise<void> {
  await using held = await client.lock("examples/counter");
  using _ = watch(held);
  const file = join(dir, "counter");
  const number = Number(await readFile(file, "utf8"));
  await writeFile(`${file}.new`, `${number + 1}\n`);
  // Before the step that cannot be undone: is the lock still held?
  if (held.isLost()) {
    throw held.why!;
  }
  await rename(`${file}.new`, file);
  console.log("done counter");
}
