// A small server of the protocol, which does to uploads what networks and bad servers do to them.

import { createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

import { crc32c, toBase64 } from "../src/crc32c.js";

export type Kind = "start" | "query" | "data" | "delete";

/** What is done to one request. */
export type Fault =
  /** The connection ends in the middle of the body; the first half is kept. */
  | "cut"
  /** The connection ends before anything was read. */
  | "refuse"
  /** All is done, and the connection ends without a reply, or in the middle of one. */
  | "lose reply"
  | "truncate reply"
  /** All is done, and nothing is said. */
  | "silence"
  /** The session is gone: 404, 410. */
  | "forget"
  | "kill"
  /** Half of what was committed is lost, and the reply says so. */
  | "rewind"
  /** Only the first 300,000 bytes of the body are kept. */
  | "keep a part"
  | ((request: SeenRequest) => Answer);

export interface Answer {
  status: number;
  headers?: Record<string, string>;
  body?: string;
}

export interface SeenRequest {
  kind: Kind;
  method: string;
  url: string;
  headers: IncomingMessage["headers"];
  body: Buffer;
}

interface Session {
  media: Buffer;
  total: number;
  finished: boolean;
  cancelled: boolean;
}

export class FaultyServer {
  readonly seen: SeenRequest[] = [];
  /** The faults of the next requests of a kind; undefined for none. */
  readonly faults: Record<Kind, (Fault | undefined)[]> = {
    start: [],
    query: [],
    data: [],
    delete: [],
  };
  /** The finished media. */
  readonly finished: Buffer[] = [];
  /** What the resource states besides the size and the right checksum. */
  stated: object = {};
  /** Where sessions are: another URL than this server's, for a test. */
  sessionsAt: string | undefined;
  readonly #sessions = new Map<string, Session>();
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(): Promise<FaultyServer> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const faulty = new FaultyServer(server);
    server.on("request", (request, response) => {
      faulty.#handle(request, response).catch(() => response.destroy());
    });
    return faulty;
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get url(): string {
    return `${this.origin}/upload/farm/v1/animals`;
  }

  /** The kinds of the requests so far, as words. */
  get story(): string {
    return this.seen.map(({ kind }) => kind).join(" ");
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const kind = kindOf(request);
    const fault = this.faults[kind].shift();
    if (fault === "refuse") {
      this.seen.push(seen(kind, request, Buffer.alloc(0)));
      response.destroy();
      return;
    }
    let body = await bodyOf(request, fault === "cut");
    this.seen.push(seen(kind, request, body));
    if (fault === "keep a part") body = body.subarray(0, 300_000);
    if (typeof fault === "function") return send(response, fault(this.seen.at(-1)!));
    const id = new URL(request.url!, this.origin).searchParams.get("upload_id");
    if (fault === "forget" || fault === "kill") {
      this.#sessions.delete(id!);
      return send(response, { status: fault === "kill" ? 410 : 404 });
    }
    const answer =
      kind === "start" ? this.#start(request) : this.#inSession(kind, id!, request, body);
    if (fault === "rewind") return send(response, this.#rewind(id!));
    if (fault === "silence") return;
    if (fault === "cut" || fault === "lose reply") {
      response.destroy();
      return;
    }
    if (fault === "truncate reply") return truncate(response, answer);
    send(response, answer);
  }

  #start(request: IncomingMessage): Answer {
    const id = `secret-${this.#sessions.size}`;
    const total = Number(request.headers["x-upload-content-length"]);
    const media = Buffer.alloc(0);
    this.#sessions.set(id, { media, total, finished: false, cancelled: false });
    const at = this.sessionsAt ?? this.origin;
    return { status: 200, headers: { Location: `${at}/upload/farm/v1/animals?upload_id=${id}` } };
  }

  #inSession(kind: Kind, id: string, request: IncomingMessage, body: Buffer): Answer {
    const session = this.#sessions.get(id);
    if (!session) return { status: 404 };
    if (kind === "delete" && !session.finished) session.cancelled = true;
    if (session.cancelled) return { status: 499 };
    if (session.finished) return this.#resource(session);
    const range = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(request.headers["content-range"] ?? "");
    if (range) {
      const first = Number(range[1]);
      const { media } = session;
      if (first > media.length) return { status: 503, body: "a gap" };
      session.media = Buffer.concat([media, body.subarray(media.length - first)]);
    }
    if (session.media.length < session.total) return incomplete(session);
    session.finished = true;
    this.finished.push(session.media);
    return this.#resource(session);
  }

  #resource({ media }: Session): Answer {
    const digest = toBase64(crc32c(media));
    const resource = { id: "7", size: String(media.length), crc32c: digest, ...this.stated };
    const headers = { "Content-Type": "application/json" };
    return { status: 201, headers, body: JSON.stringify(resource) };
  }

  #rewind(id: string): Answer {
    const session = this.#sessions.get(id)!;
    session.media = session.media.subarray(0, session.media.length / 2);
    return incomplete(session);
  }
}

function incomplete({ media: { length } }: Session): Answer {
  return { status: 308, headers: length > 0 ? { Range: `bytes=0-${length - 1}` } : {} };
}

function kindOf({ method, url, headers }: IncomingMessage): Kind {
  if (!url!.includes("upload_id=")) return "start";
  if (method === "DELETE") return "delete";
  // An empty request at the end of the media is a query as well.
  return headers["content-range"]?.startsWith("bytes */") ? "query" : "data";
}

async function bodyOf(request: IncomingMessage, cut: boolean): Promise<Buffer> {
  const half = Number(request.headers["content-length"]) / 2;
  const pieces: Buffer[] = [];
  let length = 0;
  for await (const piece of request.iterator({ destroyOnReturn: false })) {
    pieces.push(piece);
    length += piece.length;
    if (cut && length >= half) break;
  }
  return Buffer.concat(pieces);
}

function seen(kind: Kind, request: IncomingMessage, body: Buffer): SeenRequest {
  return { kind, method: request.method!, url: request.url!, headers: request.headers, body };
}

function send(response: ServerResponse, { status, headers, body = "" }: Answer): void {
  response.writeHead(status, { "Content-Length": Buffer.byteLength(body), ...headers });
  response.end(body);
}

function truncate(response: ServerResponse, { status, headers, body = "" }: Answer): void {
  response.writeHead(status, { "Content-Length": body.length + 10, ...headers });
  response.write(body.slice(0, body.length / 2));
  setTimeout(() => response.destroy(), 10);
}
