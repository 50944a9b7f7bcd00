// Replies as a server would send them, and a transfer that is fed with them.

import type { Reply } from "../src/reply.js";
import { Transfer } from "../src/transfer.js";
import type { Plan, TransferEvent } from "../src/transfer.js";

export const KIB = 1024;
export const MIB = 1024 * KIB;
/** The granularity of chunks. */
export const Q = 256 * KIB;

export function reply(status: number, headers: Record<string, string> = {}, body = ""): Reply {
  const all = new Headers(headers);
  return { status, header: (name) => all.get(name), body };
}

export function started(): Reply {
  return reply(200, { Location: "https://up.example.com/u?upload_id=secret" });
}

export function incomplete(committed: number): Reply {
  return reply(308, committed > 0 ? { Range: `bytes=0-${committed - 1}` } : {});
}

export function resource(fields: object = { id: "7" }): Reply {
  return reply(200, { "Content-Type": "application/json" }, JSON.stringify(fields));
}

export function errorObject(status: number, reason: string, message = "no"): Reply {
  const error = { code: status, message, errors: [{ reason, message, domain: "global" }] };
  return reply(status, { "Content-Type": "application/json" }, JSON.stringify({ error }));
}

/** A transfer with the replies that a test gives it. Random numbers are 0, the clock stands. */
export class Driven {
  readonly transfer: Transfer;

  constructor(transfer: Transfer) {
    this.transfer = transfer;
  }

  static start(plan: Plan): Driven {
    return new Driven(Transfer.start(plan));
  }

  /** With a session, so that the first data follows. */
  static inSession(plan: Plan): Driven {
    const driven = Driven.start(plan);
    driven.gets(started());
    return driven;
  }

  get does(): string {
    return this.transfer.action.do;
  }

  /** The bytes of the data request that follows. */
  get data(): [number, number] {
    const { action } = this.transfer;
    if (action.do !== "data") throw new Error(`${action.do} follows, no data`);
    return [action.chunk.first, action.chunk.end];
  }

  /** The wait that follows, in milliseconds. */
  get delay(): number {
    const { action } = this.transfer;
    if (action.do !== "wait") throw new Error(`${action.do} follows, no wait`);
    return action.wait.delay;
  }

  get failure(): string {
    const { action } = this.transfer;
    return action.do === "fail" ? action.failure.is : `none: ${action.do}`;
  }

  gets(answer: Reply): TransferEvent {
    return this.transfer.replied(answer, 0, 0);
  }

  breaks(): void {
    this.transfer.broke(0);
  }

  waits(): number {
    const { delay } = this;
    this.transfer.waited();
    return delay;
  }

  /** The data request breaks, and a query says what was kept. */
  breaksKeeping(committed: number): void {
    this.breaks();
    this.waits();
    this.gets(incomplete(committed));
  }
}
