// What a reply means, given the request that it answers.

/** A reply that arrived whole. */
export interface Reply {
  status: number;
  /** A header by its name in any case; null if it is absent or hidden from this page. */
  header(name: string): string | null;
  body: string;
}

export type RequestKind = "start" | "query" | "data";

/** An error of the server, or another reply that is not a success. */
export interface ErrorReply {
  status: number;
  /** The first reason of Google's error object. */
  reason?: string;
  /** The message of Google's error object, or one line of text without markup. */
  message?: string;
}

/** The meaning of a reply. */
export type ReplyClass =
  | { is: "started"; location: string }
  | { is: "incomplete"; committed: number }
  /** The upload is finished. */
  | { is: "complete"; resource: Resource | null }
  /** The session does not exist any more. */
  | { is: "lost" }
  | { is: "cancelled" }
  /** The same request may succeed after a wait. */
  | { is: "transient" }
  | { is: "unauthorized" }
  /** Something before the server takes no body of this size. */
  | { is: "too-large" }
  /** Not a reply of the protocol; a retry may get another one. */
  | { is: "unexpected" }
  /** Not a reply of the protocol, and a retry could do harm. */
  | { is: "not-the-protocol" }
  | { is: "refused" };

/** The JSON object that describes what was uploaded. */
export type Resource = Record<string, unknown>;

const MAX_MESSAGE_LENGTH = 400;

export function classify(kind: RequestKind, reply: Reply): ReplyClass {
  const { status } = reply;
  const inSession = kind !== "start";
  if (inSession && (status === 308 || (status === 200 && standsFor308(reply)))) {
    return incomplete(reply);
  }
  if (status >= 200 && status < 300 && kind === "start") return started(reply);
  if (status === 200 || status === 201) {
    const resource = resourceOf(reply);
    if (resource !== undefined) return { is: "complete", resource };
  }
  // A 204 confirms the request that carried the media. In reply to a query it may come from a
  // proxy that answers everything.
  if (status === 204 && kind === "data") return { is: "complete", resource: null };
  // The server has already acted, or another address would act.
  if (status < 400 && kind === "start") return { is: "not-the-protocol" };
  return failed(kind, reply);
}

function failed(kind: RequestKind, reply: Reply): ReplyClass {
  const { status } = reply;
  switch (status) {
    case 404:
    case 410:
      return { is: kind === "start" ? "refused" : "lost" };
    case 401:
      return { is: "unauthorized" };
    case 499:
      return { is: "cancelled" };
    case 408:
    case 429:
      return { is: "transient" };
    case 403:
      return { is: isRateLimit(errorOf(reply)) ? "transient" : "refused" };
    // The server itself gives a reason: then the media is too large, in any number of requests.
    case 413:
      return { is: kind === "data" && !errorOf(reply).reason ? "too-large" : "refused" };
    // A second writer, a wrong connection, a request that is too early: each may pass.
    case 409:
    case 421:
    case 423:
    case 425:
      return { is: "unexpected" };
    default:
      if (status < 400) return { is: "unexpected" };
      return { is: status >= 500 && status < 600 ? "transient" : "refused" };
  }
}

/** Without a `Range` nothing is committed. A malformed one states no reliable offset. */
function incomplete(reply: Reply): ReplyClass {
  const range = reply.header("Range");
  if (range === null) return { is: "incomplete", committed: 0 };
  const last = /^(?:bytes[= ])?0-(\d+)$/i.exec(range.trim())?.[1];
  const committed = Number(last) + 1;
  return Number.isSafeInteger(committed)
    ? { is: "incomplete", committed }
    : { is: "unexpected" };
}

function standsFor308(reply: Reply): boolean {
  return reply.header("X-HTTP-Status-Code-Override")?.trim() === "308";
}

function started(reply: Reply): ReplyClass {
  const location = reply.header("Location")?.trim();
  return location ? { is: "started", location } : { is: "not-the-protocol" };
}

/** A JSON object; null for an empty body, which a method may send; else undefined. */
function resourceOf(reply: Reply): Resource | null | undefined {
  if (/^\s*text\/html/i.test(reply.header("Content-Type") ?? "")) return undefined;
  const body = reply.body.trim();
  if (body === "") return null;
  const value = parsed(body);
  if (value === null) return null;
  return isObject(value) ? value : undefined;
}

/** What a reply without success says, in a form that can be shown as text. */
export function errorOf(reply: Reply): ErrorReply {
  const body = parsed(reply.body);
  const error = isObject(body) ? body["error"] : undefined;
  const result: ErrorReply = { status: reply.status };
  let message: unknown;
  if (isObject(error)) {
    message = error["message"];
    const first: unknown = Array.isArray(error["errors"]) ? error["errors"][0] : undefined;
    const reason = isObject(first) ? first["reason"] : undefined;
    if (typeof reason === "string") result.reason = shortened(reason);
  } else if (body === undefined) {
    message = plainText(reply.body);
  }
  if (typeof message === "string" && message !== "") result.message = shortened(message);
  return result;
}

function isRateLimit(error: ErrorReply): boolean {
  return error.reason === "rateLimitExceeded" || error.reason === "userRateLimitExceeded";
}

/** The wait that `Retry-After` asks for in milliseconds, as seconds or a date (RFC 9110). */
export function retryAfter(reply: Reply, now: number): number {
  const text = reply.header("Retry-After")?.trim();
  if (!text) return 0;
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  const date = Date.parse(text);
  return Number.isNaN(date) ? 0 : Math.max(0, date - now);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function isObject(value: unknown): value is Resource {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function plainText(body: string): string | undefined {
  const text = body.trim();
  return text.startsWith("<") || text.includes("\n") ? undefined : text;
}

/** At most 400 characters, without control characters and those that turn a text's direction. */
function shortened(text: string): string {
  const unsafe = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;
  return [...text.slice(0, 4 * MAX_MESSAGE_LENGTH).replace(unsafe, "")]
    .slice(0, MAX_MESSAGE_LENGTH)
    .join("");
}
