// Why an upload failed, as callers see it. No text shows a session URI or a token.

import type { ErrorReply } from "./reply.js";
import type { Cause, Failure } from "./transfer.js";

/** What has gone wrong with an upload. */
export type ErrorCode =
  /** The server refuses the request and would refuse it again. */
  | "refused"
  /** The session was cancelled, not by this page. */
  | "cancelled"
  /** The attempts are used up. */
  | "gave-up"
  /** The replies do not belong to the protocol. */
  | "unexpected"
  /** The server has lost every session. */
  | "sessions-lost"
  /** The server has more bytes than were sent: another client uploads to the session. */
  | "offset-beyond-sent"
  /** The server finished before all was sent. */
  | "premature-success"
  /** The file was changed, moved or deleted while it was sent. */
  | "file-changed"
  /** The resource at the end states another size or checksum than that of the file. */
  | "media-differs"
  /** The session is at a server that may not have the media. */
  | "session-elsewhere"
  /** The page's function for tokens has failed. */
  | "no-token"
  /** The same file is being uploaded already, perhaps by another tab. */
  | "busy"
  /** Something in the page itself has thrown the `cause`. */
  | "internal";

/** The failure of an upload. */
export class UploadError extends Error {
  override readonly name = "UploadError";
  readonly code: ErrorCode;
  /** Whether another attempt continues where this one has ended. */
  readonly resumable: boolean;
  /** The status of the reply that was the reason. */
  readonly status: number | undefined;
  /** The reason in Google's error object, such as `uploadTooLarge`. */
  readonly reason: string | undefined;

  constructor(
    code: ErrorCode,
    message: string,
    { resumable = false, error, cause }: Details = {},
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.resumable = resumable;
    this.status = error?.status;
    this.reason = error?.reason;
  }

  static of(failure: Failure): UploadError {
    return new UploadError(failure.is, textOf(failure), {
      resumable: sessionSurvives(failure),
      error: replyOf(failure),
    });
  }
}

interface Details {
  resumable?: boolean;
  error?: ErrorReply | undefined;
  cause?: unknown;
}

/** Whether the session is still valid, so that another attempt can continue in it. */
function sessionSurvives(failure: Failure): boolean {
  switch (failure.is) {
    case "gave-up":
    case "unexpected":
      return failure.session;
    // A reply without Google's error object may come from something that knows no session.
    case "refused":
      return !failure.error.reason || [401, 403, 407].includes(failure.error.status);
    case "cancelled":
    case "sessions-lost":
    case "offset-beyond-sent":
    case "premature-success":
      return false;
  }
}

function replyOf(failure: Failure): ErrorReply | undefined {
  switch (failure.is) {
    case "refused":
    case "unexpected":
      return failure.error;
    case "gave-up":
      return failure.cause.is === "reply" ? failure.cause.error : undefined;
    case "cancelled":
    case "sessions-lost":
    case "offset-beyond-sent":
    case "premature-success":
      return undefined;
  }
}

function textOf(failure: Failure): string {
  switch (failure.is) {
    case "refused":
      return `The server refused the upload: ${replyText(failure.error)}`;
    case "cancelled":
      return "The upload was cancelled on the server";
    case "gave-up": {
      const asked = failure.retryAfter > 0
        ? `; the server asks to wait ${Math.ceil(failure.retryAfter / 1000)} s`
        : "";
      const tries = failure.tries === 1 ? "1 attempt" : `${failure.tries} attempts`;
      return `Given up after ${tries}: ${causeText(failure.cause)}${asked}`;
    }
    case "unexpected":
      return `The server does not follow the upload protocol: ${replyText(failure.error)}`;
    case "sessions-lost":
      return `The server has lost the upload ${failure.restarts + 1} times`;
    case "offset-beyond-sent":
      return `The server has ${failure.committed} bytes, but only ${failure.sent} were sent: ` +
        "another client uploads to the session";
    case "premature-success":
      return `The server finished the upload, but at most ${failure.sent} bytes were sent`;
  }
}

/** Why an upload waits, in words. */
export function causeText(cause: Cause): string {
  switch (cause.is) {
    case "broken":
      return "the connection broke, or this page may not use the server";
    case "offline":
      return "there is no network";
    case "reply":
      return replyText(cause.error);
    case "stalled":
      return "the server kept nothing of what was sent, or this page cannot read its Range header";
  }
}

function replyText({ status, reason, message }: ErrorReply): string {
  const text = `status ${status}${reason ? ` (${reason})` : ""}`;
  return message ? `${text}, ${message}` : text;
}
