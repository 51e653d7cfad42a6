/** A program that holds a lock until it reads a line, or the end of its input, and then says whether it has lost it. */
import { createInterface } from "node:readline";

import { Client } from "../src/index.js";

const client = new Client(process.env["MESHLOCK_API"]!, { ttlMs: 2000 });
const held = await client.lock(process.argv[2]!);
console.log("inside", held.isLost());
for await (const _ of createInterface({ input: process.stdin })) {
  console.log("lost", held.isLost());
  break;
}
