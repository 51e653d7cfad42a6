import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";

import { Client, LostError } from "../src/index.js";
import { watch } from "./watch.js";

/**
 * Changes a row that remembers the largest fence, and refuses smaller ones. Node.js has no SQLite before version 22, so this asks the
 * program sqlite3; with a driver the statement is the same.
 */
export async function database(client: Client, dir: string): Promise<void> {
  await using held = await client.lock("examples/database");
  using _ = watch(held);
  const update = `UPDATE account SET balance = balance + 1, fence = ${held.fence} WHERE id = 1 AND fence <= ${held.fence}`;
  const changed = await sqlite(join(dir, "bank.db"), `${update}; SELECT changes();`);
  if (changed !== "1") {
    throw new LostError("a later holder was here: the row is as it left it");
  }
  console.log("done database");
}

async function sqlite(file: string, statements: string): Promise<string> {
  const { stdout } = await promisify(execFile)("sqlite3", ["-cmd", ".timeout 10000", file, statements]);
  return stdout.trim();
}
