import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { Transfer, contentRange } from "../src/transfer.js";
import { Driven, MIB, Q, errorObject, incomplete, reply, resource, started } from "./replies.js";

const TOTAL = 3 * MIB;
const PLAN = { total: TOTAL };

describe("sessions", () => {
  test("a session starts at its location", () => {
    const driven = Driven.start(PLAN);
    assert.equal(driven.does, "start");
    const event = driven.gets(started());
    assert.deepEqual(event, {
      is: "started",
      location: "https://up.example.com/u?upload_id=secret",
    });
    assert.deepEqual(driven.data, [0, TOTAL]);
  });

  test("a failed start is repeated", () => {
    const driven = Driven.start(PLAN);
    driven.gets(reply(503));
    assert.equal(driven.waits(), 1000);
    assert.equal(driven.does, "start");
    driven.breaks();
    assert.equal(driven.waits(), 2000);
    assert.equal(driven.does, "start");
  });

  test("a start that is answered otherwise than by a session fails at once", () => {
    for (const answer of [reply(200), reply(302, { Location: "/" }), reply(308), resource()]) {
      const driven = Driven.start(PLAN);
      driven.gets(answer);
      assert.equal(driven.failure, "unexpected");
    }
  });

  test("a failure in a session is followed by a query", () => {
    const driven = Driven.inSession(PLAN);
    driven.breaks();
    driven.waits();
    assert.equal(driven.does, "query");
    driven.gets(incomplete(MIB));
    assert.deepEqual(driven.data, [MIB, TOTAL]);
  });

  test("a failed query is repeated", () => {
    const driven = Driven.inSession(PLAN);
    driven.breaks();
    driven.waits();
    driven.gets(reply(502));
    driven.waits();
    assert.equal(driven.does, "query");
  });

  test("a lost session begins again from the first byte", () => {
    for (const status of [404, 410]) {
      const driven = Driven.inSession(PLAN);
      driven.breaksKeeping(MIB);
      assert.deepEqual(driven.gets(reply(status)), { is: "lost" });
      assert.equal(driven.does, "start");
      assert.equal(driven.transfer.committed, 0);
      driven.gets(started());
      assert.deepEqual(driven.data, [0, TOTAL]);
    }
  });

  test("a session that a query finds lost begins again", () => {
    const driven = Driven.inSession(PLAN);
    driven.breaks();
    driven.waits();
    driven.gets(reply(404));
    assert.equal(driven.does, "start");
  });

  test("what was sent to a lost session does not count", () => {
    const driven = Driven.inSession({ ...PLAN, chunkSize: MIB });
    driven.gets(incomplete(MIB));
    driven.gets(reply(404));
    driven.gets(started());
    driven.breaks();
    driven.waits();
    driven.gets(incomplete(2 * MIB));
    assert.equal(driven.failure, "offset-beyond-sent");
  });

  test("the end that was sent to a lost session does not count", () => {
    const driven = Driven.inSession({ ...PLAN, chunkSize: 2 * MIB });
    driven.gets(incomplete(2 * MIB));
    driven.gets(reply(410));
    driven.gets(started());
    driven.breaks();
    driven.waits();
    driven.gets(resource());
    assert.equal(driven.failure, "premature-success");
  });

  test("the fourth lost session fails", () => {
    const driven = Driven.start(PLAN);
    for (let n = 0; n < 4; n++) {
      driven.gets(started());
      driven.gets(reply(410));
    }
    assert.equal(driven.failure, "sessions-lost");
    assert.equal(driven.transfer.restarts, 3);
  });

  test("progress does not reset the count of restarts", () => {
    const driven = Driven.start({ ...PLAN, retryPolicy: { restarts: 1 } });
    driven.gets(started());
    driven.gets(incomplete(MIB));
    driven.gets(reply(404));
    driven.gets(started());
    driven.gets(incomplete(MIB));
    driven.gets(reply(404));
    assert.equal(driven.failure, "sessions-lost");
  });

  test("a cancelled session is not replaced", () => {
    const driven = Driven.inSession(PLAN);
    driven.gets(reply(499));
    assert.equal(driven.failure, "cancelled");
  });

  test("the session of another page is queried first", () => {
    const driven = new Driven(Transfer.resume(PLAN));
    assert.equal(driven.does, "query");
    driven.gets(incomplete(2 * MIB));
    assert.deepEqual(driven.data, [2 * MIB, TOTAL]);
  });

  test("the session of another page may be finished, lost or beyond the media", () => {
    for (const [answer, expected] of [
      [resource(), "finish"],
      [reply(404), "start"],
      [incomplete(TOTAL + 1), "fail"],
    ] as const) {
      const driven = new Driven(Transfer.resume(PLAN));
      driven.gets(answer);
      assert.equal(driven.does, expected);
    }
  });
});

describe("offsets", () => {
  test("the next chunk begins at the committed offset", () => {
    const driven = Driven.inSession({ ...PLAN, chunkSize: MIB });
    assert.deepEqual(driven.gets(incomplete(MIB)), { is: "committed", offset: MIB });
    assert.deepEqual(driven.data, [MIB, 2 * MIB]);
    driven.gets(incomplete(MIB + Q + 43));
    assert.deepEqual(driven.data, [MIB + Q + 43, 2 * MIB + Q + 43]);
  });

  test("after an offset that goes back the bytes are sent again", () => {
    const driven = Driven.inSession(PLAN);
    driven.gets(incomplete(2 * MIB));
    driven.breaks();
    driven.waits();
    driven.gets(incomplete(MIB));
    assert.deepEqual(driven.data[0], MIB);
  });

  test("a malformed range changes nothing", () => {
    const driven = Driven.inSession(PLAN);
    driven.gets(incomplete(MIB));
    driven.gets(reply(308, { Range: "bytes=5-9" }));
    assert.equal(driven.waits(), 1000);
    assert.equal(driven.does, "query");
    assert.equal(driven.transfer.committed, MIB);
  });

  test("a chunk of which nothing was kept waits and queries", () => {
    const driven = Driven.inSession(PLAN);
    driven.gets(incomplete(0));
    assert.equal(driven.waits(), 1000);
    assert.equal(driven.does, "query");
  });

  test("almost no progress waits", () => {
    const driven = Driven.inSession(PLAN);
    driven.gets(incomplete(Q - 1));
    assert.equal(driven.does, "wait");
    const other = Driven.inSession(PLAN);
    other.gets(incomplete(Q));
    assert.equal(other.does, "data");
  });

  test("a server that keeps nothing is given up", () => {
    const driven = Driven.inSession(PLAN);
    for (let n = 0; n < 5; n++) {
      driven.gets(incomplete(0));
      driven.waits();
      driven.gets(incomplete(0));
    }
    driven.gets(incomplete(0));
    assert.equal(driven.failure, "gave-up");
  });

  test("an offset beyond what was sent fails", () => {
    const driven = Driven.inSession({ ...PLAN, chunkSize: MIB });
    driven.gets(incomplete(MIB + 1));
    const { action } = driven.transfer;
    assert.deepEqual(action, {
      do: "fail",
      failure: { is: "offset-beyond-sent", committed: MIB + 1, sent: MIB },
    });
  });

  test("an offset within an earlier, larger request is accepted", () => {
    const driven = Driven.inSession(PLAN);
    driven.breaksKeeping(0);
    driven.breaksKeeping(0);
    const [, end] = driven.data;
    assert.ok(end < TOTAL);
    driven.gets(incomplete(end + MIB));
    assert.equal(driven.data[0], end + MIB);
  });

  test("an upload that is finished before its end was sent fails", () => {
    const driven = Driven.inSession({ ...PLAN, chunkSize: MIB });
    driven.gets(resource());
    assert.equal(driven.waits(), 1000);
    assert.equal(driven.does, "query");
    driven.gets(resource());
    assert.equal(driven.failure, "premature-success");
  });

  test("once the last byte was sent any request may finish the upload", () => {
    const driven = Driven.inSession({ ...PLAN, chunkSize: 2 * MIB });
    driven.gets(incomplete(2 * MIB));
    driven.breaks();
    driven.waits();
    driven.gets(resource({ id: "9" }));
    assert.deepEqual(driven.transfer.action, { do: "finish", resource: { id: "9" } });
    assert.equal(driven.transfer.committed, TOTAL);
  });

  test("204 confirms data and no query", () => {
    const driven = Driven.inSession(PLAN);
    driven.gets(reply(204));
    assert.equal(driven.does, "finish");
    const other = Driven.inSession(PLAN);
    other.breaks();
    other.waits();
    other.gets(reply(204));
    assert.equal(other.does, "wait");
  });

  test("all bytes committed without an end are finished by an empty request", () => {
    const driven = Driven.inSession(PLAN);
    driven.gets(incomplete(TOTAL));
    assert.deepEqual(driven.data, [TOTAL, TOTAL]);
    driven.gets(resource());
    assert.equal(driven.does, "finish");
  });

  test("a server that never finishes is given up", () => {
    const driven = Driven.inSession(PLAN);
    driven.gets(incomplete(TOTAL));
    for (let n = 0; n < 5; n++) {
      driven.gets(incomplete(TOTAL));
      driven.waits();
      driven.gets(incomplete(TOTAL));
    }
    driven.gets(incomplete(TOTAL));
    assert.equal(driven.failure, "gave-up");
  });

  test("empty media is one empty request", () => {
    const driven = Driven.inSession({ total: 0 });
    assert.deepEqual(driven.data, [0, 0]);
    driven.gets(resource());
    assert.equal(driven.does, "finish");
  });

  test("ranges are stated as the protocol has them", () => {
    assert.equal(contentRange({ first: 0, end: 10 }, 100), "bytes 0-9/100");
    assert.equal(contentRange({ first: 90, end: 100 }, 100), "bytes 90-99/100");
    assert.equal(contentRange({ first: 100, end: 100 }, 100), "bytes */100");
    assert.equal(contentRange(null, 100), "bytes */100");
    assert.equal(contentRange({ first: 0, end: 0 }, 0), "bytes */0");
  });
});

describe("retries", () => {
  test("waits double, and the sixth attempt without progress fails", () => {
    const driven = Driven.inSession(PLAN);
    const waits = [];
    for (let n = 0; n < 5; n++) {
      driven.breaks();
      waits.push(driven.waits());
    }
    driven.breaks();
    assert.deepEqual(waits, [1000, 2000, 4000, 8000, 16_000]);
    const { action } = driven.transfer;
    assert.deepEqual(action, {
      do: "fail",
      failure: { is: "gave-up", cause: { is: "broken" }, tries: 6, session: true, retryAfter: 0 },
    });
  });

  test("a wait tells the attempt and the cause", () => {
    const driven = Driven.inSession(PLAN);
    driven.gets(reply(503, {}, "busy"));
    assert.deepEqual(driven.transfer.action, {
      do: "wait",
      wait: {
        delay: 1000,
        attempt: 2,
        of: 6,
        cause: { is: "reply", error: { status: 503, message: "busy" } },
      },
    });
  });

  test("progress resets the waits", () => {
    const driven = Driven.inSession(PLAN);
    driven.breaksKeeping(Q);
    driven.breaks();
    assert.equal(driven.delay, 1000);
  });

  test("an offset that was reached before is no progress", () => {
    const driven = Driven.inSession(PLAN);
    driven.breaksKeeping(MIB);
    driven.breaksKeeping(MIB);
    driven.breaks();
    assert.equal(driven.delay, 2000);
  });

  test("the start of a session is no progress", () => {
    const driven = Driven.start(PLAN);
    driven.breaks();
    driven.waits();
    driven.gets(started());
    driven.breaks();
    assert.equal(driven.delay, 2000);
  });

  test("overload backs off", () => {
    for (const status of [408, 429, 500, 502, 503, 504, 599]) {
      const driven = Driven.inSession(PLAN);
      driven.gets(reply(status));
      assert.equal(driven.waits(), 1000);
      assert.equal(driven.does, "query");
    }
  });

  test("a gap is asked about", () => {
    const driven = Driven.inSession({ ...PLAN, chunkSize: MIB });
    driven.gets(incomplete(MIB));
    driven.gets(reply(503, { "Content-Type": "text/plain" }, "Invalid request. Expected byte 5"));
    driven.waits();
    driven.gets(incomplete(Q));
    assert.deepEqual(driven.data, [Q, Q + MIB]);
  });

  test("a longer Retry-After replaces the wait, a shorter one does not", () => {
    for (const [seconds, expected] of [["7", 7000], ["0", 1000]] as const) {
      const driven = Driven.inSession(PLAN);
      driven.gets(reply(503, { "Retry-After": seconds }));
      assert.equal(driven.delay, expected);
    }
  });

  test("a Retry-After over ten minutes is given up at once", () => {
    const driven = Driven.inSession(PLAN);
    driven.gets(reply(503, { "Retry-After": "601" }));
    assert.equal(driven.failure, "gave-up");
    const other = Driven.inSession(PLAN);
    other.gets(reply(503, { "Retry-After": "600" }));
    assert.equal(other.delay, 600_000);
  });

  test("unexpected replies are tried ten times, a second apart", () => {
    const driven = Driven.inSession(PLAN);
    for (let n = 0; n < 9; n++) {
      driven.gets(reply(409));
      assert.equal(driven.waits(), 1000);
      assert.equal(driven.does, "query");
    }
    driven.gets(reply(409));
    assert.equal(driven.failure, "unexpected");
  });

  test("a Retry-After lengthens the pause after an unexpected reply, up to ten minutes", () => {
    const driven = Driven.inSession(PLAN);
    driven.gets(reply(423, { "Retry-After": "5" }));
    assert.equal(driven.waits(), 5000);
    driven.gets(reply(423, { "Retry-After": "5000" }));
    assert.equal(driven.waits(), 600_000);
  });

  test("unexpected replies and broken connections are counted apart", () => {
    const driven = Driven.inSession(PLAN);
    for (let n = 0; n < 5; n++) {
      driven.breaks();
      driven.waits();
      driven.gets(reply(409));
      driven.waits();
    }
    assert.equal(driven.does, "query");
  });

  test("progress resets the count of unexpected replies", () => {
    const driven = Driven.inSession(PLAN);
    for (let n = 0; n < 9; n++) {
      driven.gets(reply(409));
      driven.waits();
    }
    driven.gets(incomplete(MIB));
    driven.gets(reply(409));
    assert.equal(driven.does, "wait");
  });

  test("the plan's policy applies", () => {
    const retryPolicy = { unit: 10, waits: 1, otherTries: 1, restarts: 0 };
    const driven = Driven.inSession({ ...PLAN, retryPolicy });
    driven.breaks();
    assert.equal(driven.waits(), 10);
    driven.breaks();
    assert.equal(driven.failure, "gave-up");
    const other = Driven.inSession({ ...PLAN, retryPolicy });
    other.gets(reply(409));
    assert.equal(other.failure, "unexpected");
    const third = Driven.inSession({ ...PLAN, retryPolicy });
    third.gets(reply(404));
    assert.equal(third.failure, "sessions-lost");
  });

  test("without a network attempts are not counted", () => {
    const driven = Driven.inSession(PLAN);
    for (let n = 0; n < 100; n++) {
      driven.transfer.broke(0, true);
      assert.equal(driven.waits(), 1000);
    }
    driven.breaks();
    assert.equal(driven.delay, 1000);
  });

  test("an interruption counts as no attempt, and ends a wait", () => {
    const driven = Driven.inSession(PLAN);
    driven.transfer.interrupted();
    assert.equal(driven.does, "query");
    driven.breaks();
    driven.transfer.interrupted();
    assert.equal(driven.does, "query");
    driven.breaks();
    assert.equal(driven.delay, 2000);
  });

  test("an interrupted request may have ended the upload", () => {
    const driven = Driven.inSession(PLAN);
    driven.transfer.interrupted();
    driven.gets(resource());
    assert.equal(driven.does, "finish");
  });

  test("an interrupted start is repeated", () => {
    const driven = Driven.start(PLAN);
    driven.transfer.interrupted();
    assert.equal(driven.does, "start");
  });
});

describe("tokens", () => {
  const refreshable = { ...PLAN, refreshable: true };

  test("after a 401 in a session the token is replaced, and the server asked", () => {
    const driven = Driven.inSession(refreshable);
    driven.gets(reply(401));
    assert.equal(driven.does, "refresh-token");
    driven.transfer.tokenRefreshed();
    assert.equal(driven.does, "query");
  });

  test("after a 401 the start is repeated", () => {
    const driven = Driven.start(refreshable);
    driven.gets(reply(401));
    driven.transfer.tokenRefreshed();
    assert.equal(driven.does, "start");
  });

  test("a token that cannot be replaced fails", () => {
    const driven = Driven.start(PLAN);
    driven.gets(reply(401));
    assert.equal(driven.failure, "refused");
  });

  test("a second 401 fails, also after a broken connection", () => {
    for (const between of [() => {}, (driven: Driven) => (driven.breaks(), driven.waits())]) {
      const driven = Driven.inSession(refreshable);
      driven.gets(reply(401));
      driven.transfer.tokenRefreshed();
      between(driven);
      driven.gets(reply(401));
      assert.equal(driven.failure, "refused");
    }
  });

  test("a server that takes tokens for queries alone is given up", () => {
    const driven = Driven.inSession(refreshable);
    driven.gets(reply(401));
    driven.transfer.tokenRefreshed();
    driven.gets(incomplete(0));
    driven.gets(reply(401));
    assert.equal(driven.failure, "refused");
  });

  test("after progress the token may be replaced again", () => {
    const driven = Driven.inSession(refreshable);
    driven.gets(reply(401));
    driven.transfer.tokenRefreshed();
    driven.gets(incomplete(MIB));
    driven.gets(reply(401));
    assert.equal(driven.does, "refresh-token");
  });
});

describe("calls out of order", () => {
  test("a reply and a break without a request change nothing", () => {
    const driven = Driven.inSession(PLAN);
    driven.breaks();
    const { action } = driven.transfer;
    assert.deepEqual(driven.gets(resource()), { is: "nothing" });
    driven.breaks();
    driven.transfer.tokenRefreshed();
    assert.deepEqual(driven.transfer.action, action);
  });

  test("a transfer that has ended stays so", () => {
    const finished = Driven.inSession(PLAN);
    finished.gets(resource());
    const failed = Driven.inSession(PLAN);
    failed.gets(errorObject(400, "invalid"));
    for (const driven of [finished, failed]) {
      const { action } = driven.transfer;
      driven.breaks();
      driven.gets(started());
      driven.transfer.waited();
      driven.transfer.interrupted();
      driven.transfer.tokenRefreshed();
      assert.deepEqual(driven.transfer.action, action);
    }
  });
});
