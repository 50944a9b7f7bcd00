import assert from "node:assert/strict";
import { test } from "node:test";

import { UploadError } from "../src/errors.js";
import type { Failure } from "../src/transfer.js";

const GAVE_UP = { cause: { is: "broken" }, tries: 6, retryAfter: 0 } as const;

test("a failure tells whether the session survives it", () => {
  const failures: [Failure, boolean][] = [
    [{ is: "gave-up", ...GAVE_UP, session: true }, true],
    [{ is: "gave-up", ...GAVE_UP, session: false }, false],
    [{ is: "unexpected", error: { status: 409 }, tries: 10, session: true }, true],
    // From something in between, which knows no session.
    [{ is: "refused", error: { status: 400 } }, true],
    [{ is: "refused", error: { status: 400, reason: "invalid" } }, false],
    [{ is: "refused", error: { status: 401, reason: "authError" } }, true],
    [{ is: "refused", error: { status: 403, reason: "forbidden" } }, true],
    [{ is: "refused", error: { status: 407, reason: "required" } }, true],
    [{ is: "cancelled" }, false],
    [{ is: "sessions-lost", restarts: 3, status: 410 }, false],
    [{ is: "offset-beyond-sent", committed: 2, sent: 1 }, false],
    [{ is: "premature-success", sent: 1 }, false],
  ];
  for (const [failure, resumable] of failures) {
    const error = UploadError.of(failure);
    assert.equal(error.code, failure.is);
    assert.equal(error.resumable, resumable, JSON.stringify(failure));
    assert.ok(error.message.length > 20, error.message);
  }
});

test("an error has the status and the reason of the reply behind it", () => {
  const error = { status: 503, reason: "backendError", message: "busy" };
  const cause = { is: "reply", error } as const;
  const failure = { ...GAVE_UP, cause, retryAfter: 7000, session: true };
  const thrown = UploadError.of({ is: "gave-up", ...failure });
  assert.equal(thrown.status, 503);
  assert.equal(thrown.reason, "backendError");
  const expected = "status 503 (backendError), busy; the server asks to wait 7 s";
  assert.equal(thrown.message, `Given up after 6 attempts: ${expected}`);
});
