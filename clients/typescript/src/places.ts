/** The addresses of the nodes' APIs, and how they are asked. */
import * as http from "node:http";
import * as https from "node:https";

import { errorOf, mayWorkElsewhere, MeshlockError, UnreachableError } from "./errors.js";
import { Race } from "./race.js";

/** The largest answer that is read, in bytes. */
const MAX_ANSWER = 4 << 20;

/** How long a connection may take to open, in milliseconds. */
export const CONNECT_WITHIN = 2000;

/** How long a short answer may take, in milliseconds. */
export const ANSWER_WITHIN = 5000;

/** What a client shows, and whom it trusts. */
export interface Credentials {
  /** A token (`meshlock token new NAME`). */
  token?: string;
  /** The certificate of the authority, in PEM. */
  ca?: string | Buffer;
  /** The client's certificate, in PEM. */
  cert?: string | Buffer;
  /** The key of the client's certificate, in PEM. */
  key?: string | Buffer;
}

/** The end of a request: after a time, or with a signal. */
export interface End {
  within?: number;
  signal?: AbortSignal | undefined;
}

/** Parses addresses that are separated by commas. */
function parse(list: string): URL[] {
  const texts = list.split(",").map((text) => text.trim()).filter((text) => text !== "");
  if (texts.length === 0) {
    throw new TypeError("no address of a node's API is given, such as http://127.0.0.1:2379");
  }
  return texts.map((text) => {
    const wrong = new TypeError(`'${text}' is not the address of a node's API, such as http://127.0.0.1:2379`);
    let url: URL;
    try {
      url = new URL(text.includes("//") ? text : `http://${text}`);
    } catch {
      throw wrong;
    }
    if (!["http:", "https:"].includes(url.protocol) || url.pathname !== "/" || url.username !== "" || url.search !== "") {
      throw wrong;
    }
    // A URL does not tell the port that its protocol has anyway.
    if (url.port === "" && !/:(80|443)\/?$/.test(text)) {
      url.port = "2379";
    }
    return url;
  });
}

/** Where a place is. Node 18 takes the path from a URL that it is given for HTTPS, whatever the options say, so it is given none. */
function addressOf({ protocol, hostname, port }: URL): http.RequestOptions {
  return { protocol, hostname: hostname.replace(/^\[(.*)\]$/, "$1"), port };
}

/** All sessions of a client share its places. */
export class Places {
  readonly urls: URL[];
  /** The indices of the places in the order in which they are tried. */
  #order: number[];
  /** Whether the order was asked for since the first place of it has failed. A single place is not asked. */
  #isKnown: boolean;
  /** Settled when all places have been asked, while that is done. */
  #asking: Promise<void> | undefined;
  readonly #headers: Record<string, string>;
  readonly #http = new http.Agent({ keepAlive: true, maxFreeSockets: 16 });
  readonly #https: https.Agent;

  constructor(list: string, credentials: Credentials) {
    const { token, ca, cert, key } = credentials;
    if (token !== undefined && !/^[!-~]+$/.test(token)) {
      throw new TypeError("a token is printable ASCII without spaces; `meshlock token new NAME` makes one");
    }
    this.urls = parse(list);
    this.#order = this.urls.map((_, place) => place);
    this.#isKnown = this.urls.length === 1;
    this.#headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    this.#https = new https.Agent({ keepAlive: true, maxFreeSockets: 16, ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) });
  }

  /** Closes the connections that are not in use, and those in use after their answers. */
  close(): void {
    this.#http.destroy();
    this.#https.destroy();
  }

  /** Sends one request to one place, and returns the answer. Throws a `MeshlockError`, or the signal's reason if that ends it. */
  async ask(at: number, method: string, path: string, body: unknown, end: End): Promise<unknown> {
    const place = this.urls[at]!;
    const { signal, within } = end;
    signal?.throwIfAborted();
    const text = body === undefined ? "" : JSON.stringify(body);
    const headers = { ...this.#headers, "content-type": "application/json", "content-length": Buffer.byteLength(text) };
    const [module, agent] = place.protocol === "https:" ? [https, this.#https] : [http, this.#http];
    const answer = await new Promise<Answer>((resolve, reject) => {
      const request = module.request({ ...addressOf(place), path, method, headers, agent });
      const timers = [] as NodeJS.Timeout[];
      const fail = (error: Error) => request.destroy(error);
      const onAbort = () => fail(signal!.reason instanceof Error ? signal!.reason : new Error("aborted"));
      const settle = () => {
        timers.forEach(clearTimeout);
        signal?.removeEventListener("abort", onAbort);
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      if (within !== undefined) {
        timers.push(setTimeout(fail, within, new Error(`no answer within ${Math.round(within)} ms`)));
      }
      request.on("socket", (socket) => {
        if (socket.connecting) {
          const timer = setTimeout(fail, CONNECT_WITHIN, new Error("the connection does not open"));
          timers.push(timer);
          socket.once("connect", () => clearTimeout(timer));
          socket.setKeepAlive(true, 5000);
        }
      });
      request.on("error", (error) => (settle(), reject(error)));
      request.on("response", (response) => {
        read(response, fail).then((content) => (settle(), resolve({ response, content })), (error) => (settle(), reject(error)));
      });
      request.end(text);
    }).catch((error: unknown) => {
      signal?.throwIfAborted();
      const why = error instanceof Error ? error.message : String(error);
      throw new UnreachableError(`no node answers at ${place.origin}: ${why}`);
    });
    return this.#judge(at, answer);
  }

  #judge(at: number, { response, content }: Answer): unknown {
    const origin = this.urls[at]!.origin;
    if (response.statusCode !== 200) {
      throw errorOf(origin, response.statusCode ?? 0, content, Number(response.headers["retry-after"] ?? 0) || 0);
    }
    try {
      return Object(JSON.parse(content));
    } catch {
      throw new MeshlockError("not_understood", `${origin} does not answer as a node`);
    }
  }

  /** Returns the place that is tried after this one. */
  after(at: number): number {
    return this.#order[(this.#order.indexOf(at) + 1) % this.#order.length]!;
  }

  /** Notes that a place could not serve. If it was preferred, all are asked anew before the next request that any of them may answer. */
  failed(at: number, error: unknown): void {
    if (this.#order[0] === at && mayWorkElsewhere(error) && this.urls.length > 1) {
      this.#isKnown = false;
    }
  }

  /** Asks every place once, the nearest first, until one can answer. */
  async askAny(method: string, path: string, body: unknown, signal?: AbortSignal): Promise<{ at: number; said: unknown }> {
    const order = await this.#nearest(signal);
    for (let step = 0; ; step++) {
      const at = order[step]!;
      try {
        return { at, said: await this.ask(at, method, path, body, { within: ANSWER_WITHIN, signal }) };
      } catch (error) {
        if (!mayWorkElsewhere(error) || step + 1 >= order.length) {
          throw error;
        }
        this.failed(at, error);
      }
    }
  }

  /** Returns the places in the order in which they are preferred. If that is not known, it asks all of them, for all callers together. */
  async #nearest(signal: AbortSignal | undefined): Promise<number[]> {
    signal?.throwIfAborted();
    if (!this.#isKnown) {
      this.#asking ??= this.#askAll().finally(() => (this.#asking = undefined));
      await unlessAborted(this.#asking, signal);
    }
    return this.#order;
  }

  /** Asks all places at once whether they serve. When their order is known, the other questions are aborted. */
  async #askAll(): Promise<void> {
    const [race, over] = [new Race(this.urls.length, performance.now()), new AbortController()];
    await new Promise<void>((resolve) => {
      let timer: NodeJS.Timeout | undefined;
      const look = () => {
        clearTimeout(timer);
        const until = race.waitsUntil();
        if (until === undefined || performance.now() >= until) {
          resolve();
        } else {
          // A timer may fire early.
          timer = setTimeout(look, Math.max(until - performance.now(), 1));
        }
      };
      const asks = async (at: number) => {
        const serves = await this.ask(at, "GET", "/readyz", undefined, { signal: over.signal }).then(() => true, () => false);
        if (!over.signal.aborted) {
          race.onAnswer(at, serves, performance.now());
          look();
        }
      };
      this.urls.forEach((_, at) => void asks(at));
      look();
    });
    over.abort();
    [this.#order, this.#isKnown] = [race.order(), true];
  }
}

/** Waits for something that goes on without the caller, or throws the signal's reason if that comes first. */
async function unlessAborted(promise: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) {
    return promise;
  }
  let abort = () => {};
  const aborted = new Promise<void>((resolve) => (abort = resolve));
  signal.addEventListener("abort", abort, { once: true });
  await Promise.race([promise, aborted]).finally(() => signal.removeEventListener("abort", abort));
  signal.throwIfAborted();
}

interface Answer {
  response: http.IncomingMessage;
  content: string;
}

async function read(response: http.IncomingMessage, fail: (error: Error) => void): Promise<string> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of response as AsyncIterable<Buffer>) {
    length += part.length;
    if (length > MAX_ANSWER) {
      const error = new Error("the answer is too long");
      fail(error);
      throw error;
    }
    parts.push(part);
  }
  return Buffer.concat(parts).toString("utf8");
}

/**
 * Returns how long to wait after this many failures in a row: longer each time up to a limit, and random, so that clients do not come
 * back all at once.
 */
export function backoff(failures: number, limit: number): number {
  const longest = Math.min(25 * 2 ** Math.min(failures, 10), limit);
  return longest * (0.5 + Math.random() / 2);
}

/** Waits, unless the signal ends it first. With `unref` the wait does not keep the program from ending. */
export function sleep(milliseconds: number, signal: AbortSignal | undefined, unref = false): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) {
      resolve();
      return;
    }
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, Math.max(milliseconds, 0));
    if (unref) {
      timer.unref();
    }
    signal?.addEventListener("abort", done, { once: true });
  });
}
