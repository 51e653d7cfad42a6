/** Nodes that share their sessions, and whose behaviour a test chooses. */
import { createServer, IncomingMessage, Server, ServerResponse } from "node:http";
import { AddressInfo } from "node:net";

import { Client } from "../src/index.js";

export type Behaviour = (request: IncomingMessage, response: ServerResponse) => boolean;

export function refuse(response: ServerResponse, status: number, code: string): true {
  response.writeHead(status).end(JSON.stringify({ code, message: `the node says ${code}` }));
  return true;
}

export const leaves: Behaviour = (_, response) => refuse(response, 503, "unavailable");
export const hangs: Behaviour = () => true;

export class FakeCluster {
  readonly sessions = new Map<string, string[]>();
  readonly deleted: string[] = [];
  readonly nodes: FakeNode[] = [];
  #last = 0;

  constructor(readonly safeMs: number) {}

  async start(count: number): Promise<FakeNode[]> {
    for (let at = 0; at < count; at++) {
      const node = new FakeNode(this);
      await node.start();
      this.nodes.push(node);
    }
    return this.nodes;
  }

  client(options: { retryForMs?: number; token?: string } = {}): Client {
    return new Client(this.nodes.map((node) => node.url).join(","), { retryForMs: 20_000, ...options });
  }

  end(): void {
    this.nodes.forEach((node) => node.end());
  }

  serve(method: string, path: string, body: string, response: ServerResponse): void {
    const parts = path.split("/").slice(1);
    const say = (answer: object) => response.writeHead(200).end(JSON.stringify(answer));
    const tell = (session: string) =>
      say({ session, left_ms: 2 * this.safeMs, safe_ms: this.safeMs, locks: this.sessions.get(session) });
    if (path === "/v1/sessions") {
      const session = `s${++this.#last}`;
      this.sessions.set(session, []);
      tell(session);
    } else if (parts[1] === "sessions") {
      const session = parts[2]!;
      if (!this.sessions.has(session)) {
        refuse(response, 404, "no_session");
      } else if (method === "DELETE") {
        this.sessions.delete(session);
        this.deleted.push(session);
        say({});
      } else {
        tell(session);
      }
    } else {
      const { session } = JSON.parse(body) as { session: string };
      this.sessions.set(session, [decodeURIComponent(parts[2]!)]);
      // Larger than what a number can hold.
      say({ session, fence: "9007199254740993", slot: 0, safe_ms: this.safeMs });
    }
  }
}

export class FakeNode {
  behaviour: Behaviour | undefined;
  isOver = false;
  /** What it was asked beside whether it is ready, and how often it was asked that. */
  readonly seen: string[] = [];
  asked = 0;
  readonly #server: Server;

  constructor(cluster: FakeCluster) {
    this.#server = createServer((request, response) => {
      let body = "";
      request.on("data", (part) => (body += String(part)));
      request.on("end", () => {
        const isQuestion = request.url === "/readyz";
        if (isQuestion) {
          this.asked++;
        } else {
          this.seen.push(`${request.method} ${request.url}`);
        }
        if (this.behaviour?.(request, response) === true) {
          return;
        }
        if (isQuestion) {
          // If a node before it is well, that one shall be the nearest, however fast both are: this one's answer does not come.
          const before = cluster.nodes.slice(0, cluster.nodes.indexOf(this));
          if (!before.some((node) => node.behaviour === undefined && !node.isOver)) {
            response.writeHead(200).end("{}");
          }
        } else {
          cluster.serve(request.method ?? "", request.url ?? "", body, response);
        }
      });
    });
  }

  start(): Promise<void> {
    return new Promise((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  end(): void {
    this.isOver = true;
    this.#server.close();
    this.#server.closeAllConnections();
  }
}
