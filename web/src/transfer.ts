// The client's side of an upload as a state machine (docs/protocol.md, 5.2).
//
// `action` is the next thing to do; the caller reports what came of it: a reply, a broken
// connection, the end of a wait. A transfer does no I/O and reads no clock; random numbers are
// arguments. Only the server's `Range` decides the next byte: after any failure in a session the
// transfer asks for the committed bytes and continues from there.

import { DEFAULT_RETRY_POLICY, wait } from "./backoff.js";
import type { RetryPolicy } from "./backoff.js";
import { ChunkSizer, GRANULARITY } from "./chunks.js";
import type { Chunk } from "./chunks.js";
import { classify, errorOf, retryAfter } from "./reply.js";
import type { ErrorReply, Reply, RequestKind, Resource } from "./reply.js";

/** The media of a transfer and how it is sent. */
export interface Plan {
  /** The size of the media. */
  total: number;
  /** The size of all chunks, a multiple of 256 KiB. By default sizes adapt to the network. */
  chunkSize?: number | undefined;
  retryPolicy?: Partial<RetryPolicy> | undefined;
  /** Whether a refused bearer token can be replaced by a new one. */
  refreshable?: boolean | undefined;
}

/** The next thing to do. */
export type Action =
  | { do: "start" }
  | { do: "query" }
  | { do: "data"; chunk: Chunk }
  | { do: "wait"; wait: Wait }
  | { do: "refresh-token" }
  | { do: "finish"; resource: Resource | null }
  | { do: "fail"; failure: Failure };

/** Why a request is repeated. */
export type Cause =
  | { is: "broken" }
  /** The browser says that there is no network. */
  | { is: "offline" }
  | { is: "reply"; error: ErrorReply }
  /** The server answered a chunk and kept almost nothing of it. */
  | { is: "stalled" };

/** A wait before the next attempt. */
export interface Wait {
  /** In milliseconds. */
  delay: number;
  /** The number of the attempt after the wait; the first attempt is 1. */
  attempt: number;
  /** How many attempts there are without progress. */
  of: number;
  cause: Cause;
}

/** Why a transfer failed. */
export type Failure =
  | { is: "refused"; error: ErrorReply }
  | { is: "cancelled" }
  | { is: "gave-up"; cause: Cause; tries: number; session: boolean; retryAfter: number }
  | { is: "unexpected"; error: ErrorReply; tries: number; session: boolean }
  | { is: "sessions-lost"; restarts: number; status: number }
  | { is: "offset-beyond-sent"; committed: number; sent: number }
  | { is: "premature-success"; sent: number };

/** What a reply has told. */
export type TransferEvent =
  /** A session has begun. Its URI is a credential; keep it before the first byte is sent. */
  | { is: "started"; location: string }
  | { is: "committed"; offset: number }
  /** The session is lost, and the upload begins again. */
  | { is: "lost" }
  /** See `action`. */
  | { is: "nothing" };

type Phase =
  | { is: "active"; kind: RequestKind }
  | { is: "waiting"; wait: Wait; kind: RequestKind }
  | { is: "refreshing"; kind: RequestKind }
  | { is: "finished"; resource: Resource | null }
  | { is: "failed"; failure: Failure };

const NOTHING: TransferEvent = { is: "nothing" };

/** Outside a session a failed request is repeated; in a session the server is asked. */
function afterFailure(kind: RequestKind): RequestKind {
  return kind === "start" ? "start" : "query";
}

export class Transfer {
  readonly #plan: Plan;
  readonly #policy: RetryPolicy;
  readonly #sizer: ChunkSizer;
  #phase: Phase;
  #committed = 0;
  /** The most committed bytes that the server reported in this session. */
  #furthest = 0;
  /** The highest end of the requests of this session. */
  #sent = 0;
  /** Whether a request of this session could end the upload. */
  #sentLast = false;
  /** The data request that broke, until it is known how much of it was kept. */
  #broken: Chunk | null = null;
  #waited = 0;
  #unexpected = 0;
  #restarts = 0;
  #tokenRefreshed = false;

  private constructor(plan: Plan, kind: RequestKind) {
    this.#plan = plan;
    this.#policy = { ...DEFAULT_RETRY_POLICY, ...plan.retryPolicy };
    this.#sizer = new ChunkSizer(plan.chunkSize);
    this.#phase = { is: "active", kind };
  }

  /** Begins an upload. */
  static start(plan: Plan): Transfer {
    return new Transfer(plan, "start");
  }

  /** Continues a session that another page has begun: the server is asked for its state. */
  static resume(plan: Plan): Transfer {
    const transfer = new Transfer(plan, "query");
    transfer.#sent = plan.total;
    transfer.#sentLast = true;
    return transfer;
  }

  get action(): Action {
    const phase = this.#phase;
    switch (phase.is) {
      case "active":
        return phase.kind === "data"
          ? { do: "data", chunk: this.#chunk() }
          : { do: phase.kind };
      case "waiting":
        return { do: "wait", wait: phase.wait };
      case "refreshing":
        return { do: "refresh-token" };
      case "finished":
        return { do: "finish", resource: phase.resource };
      case "failed":
        return { do: "fail", failure: phase.failure };
    }
  }

  /** The committed bytes in the server's last reply. */
  get committed(): number {
    return this.#committed;
  }

  /** How often the upload has begun again in a new session. */
  get restarts(): number {
    return this.#restarts;
  }

  /** The wait is over, or was ended early. */
  waited(): void {
    if (this.#phase.is === "waiting") this.#phase = { is: "active", kind: this.#phase.kind };
  }

  /** Another bearer token is there. */
  tokenRefreshed(): void {
    if (this.#phase.is === "refreshing") this.#phase = { is: "active", kind: this.#phase.kind };
  }

  /** The caller itself has ended the request or the wait. That counts as no attempt. */
  interrupted(): void {
    const phase = this.#phase;
    if (phase.is === "active" || phase.is === "waiting") {
      if (phase.is === "active") this.#sentNow(phase.kind);
      this.#phase = { is: "active", kind: afterFailure(phase.kind) };
    }
  }

  /**
   * The request got no reply. `offline` says that there is no network: then the attempt is not
   * counted. `random` is drawn for this call, from 0 up to 1.
   */
  broke(random: number, offline = false): void {
    if (this.#phase.is !== "active") return;
    const { kind } = this.#phase;
    this.#sentNow(kind);
    if (!offline) return this.#backOff(kind, { is: "broken" }, 0, random);
    const delay = wait(this.#policy, this.#waited, random);
    const attempts = { attempt: this.#waited + 1, of: this.#policy.waits + 1 };
    this.#wait(kind, { delay, ...attempts, cause: { is: "offline" } });
  }

  /** The reply to the request. `now` is in milliseconds since the epoch, for `Retry-After`. */
  replied(reply: Reply, random: number, now: number): TransferEvent {
    if (this.#phase.is !== "active") return NOTHING;
    const { kind } = this.#phase;
    this.#sentNow(kind);
    const answer = classify(kind, reply);
    // A query that succeeds does not prove that the server takes the token for data. Without this,
    // a server that refuses every token for data would be asked forever.
    if (answer.is !== "unauthorized" && answer.is !== "incomplete") this.#tokenRefreshed = false;
    switch (answer.is) {
      case "started":
        this.#phase = { is: "active", kind: "data" };
        return answer;
      case "incomplete":
        return this.#incomplete(kind, answer.committed, random);
      case "complete":
        return this.#complete(kind, answer.resource, reply, random, now);
      case "lost":
        return this.#lost(reply.status);
      case "transient": {
        const asked = retryAfter(reply, now);
        this.#backOff(kind, { is: "reply", error: errorOf(reply) }, asked, random);
        return NOTHING;
      }
      case "too-large":
        return this.#tooLarge(reply);
      case "unexpected":
        return this.#retryUnexpected(kind, reply, random, now);
      case "not-the-protocol":
        return this.#fail({ is: "unexpected", error: errorOf(reply), tries: 1, session: false });
      case "unauthorized":
        if (!this.#plan.refreshable || this.#tokenRefreshed) return this.#refused(reply);
        this.#tokenRefreshed = true;
        this.#phase = { is: "refreshing", kind: afterFailure(kind) };
        return NOTHING;
      case "refused":
        return this.#refused(reply);
      case "cancelled":
        return this.#fail({ is: "cancelled" });
    }
  }

  #chunk(): Chunk {
    const first = this.#committed;
    return { first, end: Math.min(this.#plan.total, first + this.#sizer.limit) };
  }

  #sentNow(kind: RequestKind): void {
    if (kind !== "data") return;
    const { end } = this.#chunk();
    this.#sent = Math.max(this.#sent, end);
    this.#sentLast ||= end === this.#plan.total;
  }

  #incomplete(kind: RequestKind, committed: number, random: number): TransferEvent {
    if (committed > this.#sent) {
      return this.#fail({ is: "offset-beyond-sent", committed, sent: this.#sent });
    }
    const chunk = kind === "data" ? this.#chunk() : null;
    if (this.#broken) this.#sizer.broke(this.#broken, committed);
    this.#broken = null;
    this.#committed = committed;
    if (committed > this.#furthest) {
      this.#furthest = committed;
      this.#waited = 0;
      this.#unexpected = 0;
      this.#tokenRefreshed = false;
    }
    this.#phase = { is: "active", kind: "data" };
    if (!chunk) return { is: "committed", offset: committed };
    const least = Math.min(Math.max(chunk.end - chunk.first, 1), GRANULARITY);
    // Almost no progress: without a wait this could continue byte by byte.
    if (committed < chunk.first + least) this.#backOff("query", { is: "stalled" }, 0, random);
    else this.#sizer.completed(chunk, committed);
    return { is: "committed", offset: committed };
  }

  #complete(
    kind: RequestKind,
    resource: Resource | null,
    reply: Reply,
    random: number,
    now: number,
  ): TransferEvent {
    if (this.#sentLast) {
      this.#committed = this.#plan.total;
      this.#phase = { is: "finished", resource };
      return NOTHING;
    }
    // The reply may come from a proxy. A query will tell.
    if (kind === "data") return this.#retryUnexpected(kind, reply, random, now);
    return this.#fail({ is: "premature-success", sent: this.#sent });
  }

  #lost(status: number): TransferEvent {
    if (this.#restarts >= this.#policy.restarts) {
      return this.#fail({ is: "sessions-lost", restarts: this.#restarts, status });
    }
    this.#restarts += 1;
    this.#committed = 0;
    this.#furthest = 0;
    this.#sent = 0;
    this.#sentLast = false;
    this.#broken = null;
    this.#phase = { is: "active", kind: "start" };
    return { is: "lost" };
  }

  /** Something in front of the server: smaller requests may pass, until there are none. */
  #tooLarge(reply: Reply): TransferEvent {
    if (!this.#sizer.tooLarge(this.#chunk())) return this.#refused(reply);
    this.#phase = { is: "active", kind: "query" };
    return NOTHING;
  }

  /** Waits longer each time, or gives up when no waits are left. */
  #backOff(kind: RequestKind, cause: Cause, asked: number, random: number): void {
    const tries = this.#waited + 1;
    if (tries > this.#policy.waits || asked > this.#policy.longestRetryAfter) {
      const session = kind !== "start";
      this.#fail({ is: "gave-up", cause, tries, session, retryAfter: asked });
      return;
    }
    const delay = Math.max(wait(this.#policy, this.#waited, random), asked);
    this.#waited = tries;
    this.#wait(kind, { delay, attempt: tries + 1, of: this.#policy.waits + 1, cause });
  }

  /** Repeats after a pause that does not grow. */
  #retryUnexpected(kind: RequestKind, reply: Reply, random: number, now: number): TransferEvent {
    const error = errorOf(reply);
    const tries = ++this.#unexpected;
    const of = this.#policy.otherTries;
    if (tries >= of) {
      return this.#fail({ is: "unexpected", error, tries, session: kind !== "start" });
    }
    const asked = Math.min(retryAfter(reply, now), this.#policy.longestRetryAfter);
    const delay = Math.max(wait(this.#policy, 0, random), asked);
    this.#wait(kind, { delay, attempt: tries + 1, of, cause: { is: "reply", error } });
    return NOTHING;
  }

  #wait(kind: RequestKind, wait: Wait): void {
    if (kind === "data") this.#broken = this.#chunk();
    this.#phase = { is: "waiting", wait, kind: afterFailure(kind) };
  }

  #refused(reply: Reply): TransferEvent {
    return this.#fail({ is: "refused", error: errorOf(reply) });
  }

  #fail(failure: Failure): TransferEvent {
    this.#phase = { is: "failed", failure };
    return NOTHING;
  }
}

/** The `Content-Range` of a data request, or of a query if there is no chunk or an empty one. */
export function contentRange(chunk: Chunk | null, total: number): string {
  return chunk && chunk.end > chunk.first
    ? `bytes ${chunk.first}-${chunk.end - 1}/${total}`
    : `bytes */${total}`;
}
