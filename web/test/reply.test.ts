import assert from "node:assert/strict";
import { test } from "node:test";

import { classify, errorOf, retryAfter } from "../src/reply.js";
import type { RequestKind } from "../src/reply.js";
import { errorObject, incomplete, reply, resource } from "./replies.js";

/** What replies with these statuses, and nothing in them, are to a request. */
function check(kind: RequestKind, table: Record<string, number[]>): void {
  for (const [is, statuses] of Object.entries(table)) {
    for (const status of statuses) {
      assert.equal(classify(kind, reply(status)).is, is, `${status} to ${kind}`);
    }
  }
}

const TRANSIENT = [408, 429, 500, 501, 502, 503, 504, 507, 599];
const PASSING = [409, 421, 423, 425];
const REFUSED = [400, 402, 403, 405, 406, 411, 412, 415, 416, 418, 428, 431, 451];

test("every status of a start is classified", () => {
  check("start", {
    "not-the-protocol": [200, 201, 204, 299, 300, 301, 302, 304, 307, 308, 0],
    transient: TRANSIENT,
    unexpected: PASSING,
    refused: [...REFUSED, 404, 410, 413],
    unauthorized: [401],
    cancelled: [499],
  });
});

test("every status of a query is classified", () => {
  check("query", {
    complete: [200, 201],
    incomplete: [308],
    lost: [404, 410],
    transient: TRANSIENT,
    unexpected: [...PASSING, 0, 100, 202, 204, 206, 300, 302, 304, 307],
    refused: [...REFUSED, 413],
    unauthorized: [401],
    cancelled: [499],
  });
});

test("every status of a data request is classified", () => {
  check("data", {
    complete: [200, 201, 204],
    incomplete: [308],
    lost: [404, 410],
    transient: TRANSIENT,
    unexpected: [...PASSING, 0, 100, 202, 206, 300, 302, 304, 307],
    refused: REFUSED,
    "too-large": [413],
    unauthorized: [401],
    cancelled: [499],
  });
});

test("a 413 with the server's own reason is a refusal", () => {
  assert.equal(classify("data", errorObject(413, "uploadTooLarge")).is, "refused");
});

test("a 403 is transient if its reason is a rate limit", () => {
  for (const reason of ["rateLimitExceeded", "userRateLimitExceeded"]) {
    assert.equal(classify("data", errorObject(403, reason)).is, "transient");
  }
  assert.equal(classify("data", errorObject(403, "forbidden")).is, "refused");
});

test("a start with a location is a session, with any success", () => {
  for (const status of [200, 201, 202]) {
    const answer = classify("start", reply(status, { Location: " /u?upload_id=1 " }));
    assert.deepEqual(answer, { is: "started", location: "/u?upload_id=1" });
  }
});

test("an empty location starts no session", () => {
  assert.equal(classify("start", reply(200, { Location: " " })).is, "not-the-protocol");
});

test("every form of a range is read", () => {
  for (const range of ["bytes=0-42", "0-42", "bytes 0-42", "Bytes=0-42", " bytes=0-42 "]) {
    const answer = classify("data", reply(308, { Range: range }));
    assert.deepEqual(answer, { is: "incomplete", committed: 43 }, range);
  }
});

test("without a range nothing is committed", () => {
  assert.deepEqual(classify("query", reply(308)), { is: "incomplete", committed: 0 });
});

test("a malformed range is unexpected", () => {
  const malformed = [
    "", "bytes", "bytes=", "bytes=1-42", "bytes=0-", "bytes=0--1", "bytes=-5", "bytes=0-4x",
    "bytes=0-42,50-60", "bytes=0-42/100", "octets=0-42", "bytes=0-+4", "bytes=0-1e3",
    `bytes=0-${"9".repeat(30)}`, `bytes=0-${Number.MAX_SAFE_INTEGER}`,
  ];
  for (const range of malformed) {
    assert.equal(classify("data", reply(308, { Range: range })).is, "unexpected", range);
  }
});

test("200 with an override of 308 is a 308", () => {
  const headers = { "X-HTTP-Status-Code-Override": "308", Range: "bytes=0-9" };
  assert.deepEqual(classify("data", reply(200, headers)), { is: "incomplete", committed: 10 });
});

test("an override of another status is ignored", () => {
  const answer = classify("data", reply(200, { "X-HTTP-Status-Code-Override": "404" }, "{}"));
  assert.equal(answer.is, "complete");
});

test("the resource is a JSON object, whatever type is stated", () => {
  for (const type of ["application/json", "text/plain", ""]) {
    const answer = classify("data", reply(200, { "Content-Type": type }, ' {"id": "7"}\n'));
    assert.deepEqual(answer, { is: "complete", resource: { id: "7" } });
  }
});

test("a method may show no resource", () => {
  for (const body of ["", "  ", "null"]) {
    assert.deepEqual(classify("data", reply(201, {}, body)), { is: "complete", resource: null });
  }
});

test("what is neither an object nor empty is no resource", () => {
  for (const body of ["[]", "7", '"id"', "true", "OK", "<p>", '{"id": "7"', "{"]) {
    assert.equal(classify("query", reply(200, {}, body)).is, "unexpected", body);
  }
});

test("an HTML page is no resource, even an empty one", () => {
  for (const body of ["", "{}", "<html>"]) {
    const page = reply(200, { "Content-Type": "Text/HTML; charset=utf-8" }, body);
    assert.equal(classify("query", page).is, "unexpected", body);
  }
});

test("an error shows the server's reason and message", () => {
  const error = errorOf(errorObject(400, "invalid", "the type is not accepted"));
  assert.deepEqual(error, { status: 400, reason: "invalid", message: "the type is not accepted" });
});

test("a line of text is a message, a page is none", () => {
  assert.equal(errorOf(reply(503, {}, "try later\n")).message, "try later");
  assert.equal(errorOf(reply(502, {}, "<html>oh</html>")).message, undefined);
  assert.equal(errorOf(reply(502, {}, "one\ntwo")).message, undefined);
});

test("errors of any shape are read", () => {
  const bodies = [
    "{", "[]", "null", "7", '{"error":null}', '{"error":"text"}', '{"error":{"errors":{}}}',
    '{"error":{"errors":[]}}', '{"error":{"errors":[null]}}', '{"error":{"message":7}}',
    '{"error":{"errors":[{"reason":{}}]}}', '{"error":[]}', '""',
  ];
  for (const body of bodies) {
    const error = errorOf(reply(400, {}, body));
    assert.equal(error.reason, undefined, body);
  }
});

test("control characters and direction marks are removed from texts", () => {
  const error = errorOf(errorObject(400, "in\u0000valid", "a\u001b[31mb\u202ec\u2066d\u200ee\nf"));
  assert.deepEqual(error, { status: 400, reason: "invalid", message: "a[31mbcdef" });
});

test("a message has at most 400 characters", () => {
  const { message } = errorOf(errorObject(400, "invalid", "😀".repeat(5000)));
  assert.equal([...message!].length, 400);
});

test("a wait is asked for in seconds or by a date", () => {
  const now = Date.UTC(2026, 0, 1);
  const later = new Date(now + 7000).toUTCString();
  const earlier = new Date(now - 7000).toUTCString();
  for (const [text, expected] of [
    ["7", 7000], ["0", 0], [later, 7000], [earlier, 0], ["-1", 0], ["soon", 0], ["", 0],
  ] as const) {
    assert.equal(retryAfter(reply(503, { "Retry-After": text }), now), expected, text);
  }
  assert.equal(retryAfter(reply(503), now), 0);
});

test("the helpers of these tests are replies of the protocol", () => {
  assert.deepEqual(classify("data", incomplete(5)), { is: "incomplete", committed: 5 });
  assert.deepEqual(classify("data", resource()), { is: "complete", resource: { id: "7" } });
});
