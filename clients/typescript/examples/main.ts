/**
 * The five examples that all clients share, and which docs/clients.md shows side by side. The nodes' addresses are in MESHLOCK_API.
 *
 *     node dist/examples/main.js counter DIR 10 0
 *
 * takes ten turns of one of them, with its files in DIR; the last number is that of the first job of `once`.
 */
import { Client, LostError } from "../src/index.js";
import { counter } from "./counter.js";
import { database } from "./database.js";
import { leader } from "./leader.js";
import { once } from "./once.js";
import { pool } from "./pool.js";

const examples: Record<string, (client: Client, dir: string, turn: number) => Promise<void>> = { counter, leader, pool, once, database };

const [name, dir, turns, first] = process.argv.slice(2);
const example = examples[name ?? ""];
if (example === undefined || dir === undefined || turns === undefined || first === undefined) {
  console.error("usage: main.js counter|leader|pool|once|database DIR TURNS FIRST");
  process.exit(1);
}
const client = new Client(process.env["MESHLOCK_API"] ?? "");
for (let turn = Number(first); turn < Number(first) + Number(turns); ) {
  try {
    await example(client, dir, turn);
    turn++;
  } catch (error) {
    if (!(error instanceof LostError)) {
      throw error;
    }
    // A turn whose lock was lost is taken again.
  }
}
client.close();
