import assert from "node:assert/strict";
import { test } from "node:test";

import { Driven, MIB, Q, incomplete, reply } from "./replies.js";

const HUGE = 1000 * MIB;

function size(driven: Driven): number {
  const [first, end] = driven.data;
  return end - first;
}

/** The next chunk is kept whole. */
function succeeds(driven: Driven): void {
  driven.gets(incomplete(driven.data[1]));
}

test("all bytes go in one request while none breaks", () => {
  assert.deepEqual(Driven.inSession({ total: HUGE }).data, [0, HUGE]);
});

test("after one break the rest goes in one request", () => {
  const driven = Driven.inSession({ total: HUGE });
  driven.breaksKeeping(10 * MIB);
  assert.deepEqual(driven.data, [10 * MIB, HUGE]);
});

test("two breaks in a row make chunks of half of what came through", () => {
  const driven = Driven.inSession({ total: HUGE });
  driven.breaksKeeping(10 * MIB);
  driven.breaksKeeping(14 * MIB);
  assert.deepEqual(driven.data, [14 * MIB, 16 * MIB]);
});

test("chunks shrink to 256 KiB while nothing is kept", () => {
  const driven = Driven.inSession({ total: HUGE, retryPolicy: { waits: 20 } });
  const sizes = [];
  for (let n = 0; n < 7; n++) {
    driven.breaksKeeping(0);
    sizes.push(size(driven));
  }
  assert.deepEqual(sizes, [HUGE, 16 * MIB, 4 * MIB, MIB, Q, Q, Q]);
});

test("a chunk is a multiple of 256 KiB wherever a request broke", () => {
  for (const kept of [1, Q - 1, Q + 1, 5 * Q + 17, 9 * MIB + 3]) {
    const driven = Driven.inSession({ total: HUGE });
    driven.breaksKeeping(0);
    driven.breaksKeeping(kept);
    assert.equal(size(driven) % Q, 0, String(kept));
  }
});

test("an answered request ends the row of breaks", () => {
  const driven = Driven.inSession({ total: HUGE });
  driven.breaksKeeping(MIB);
  driven.gets(incomplete(600 * MIB));
  const before = size(driven);
  driven.breaksKeeping(601 * MIB);
  assert.equal(size(driven), Math.min(before, HUGE - 601 * MIB));
});

test("chunks double while they succeed, up to one request", () => {
  const driven = Driven.inSession({ total: HUGE });
  driven.breaksKeeping(0);
  driven.breaksKeeping(0);
  assert.equal(size(driven), 16 * MIB);
  succeeds(driven);
  assert.equal(size(driven), 32 * MIB);
  succeeds(driven);
  assert.equal(size(driven), 64 * MIB);
  succeeds(driven);
  assert.deepEqual(driven.data, [112 * MIB, HUGE]);
});

test("a server that keeps a part of a request gets chunks of that size", () => {
  const driven = Driven.inSession({ total: HUGE });
  driven.gets(incomplete(3 * MIB + 5));
  assert.equal(size(driven), 3 * MIB);
  succeeds(driven);
  assert.equal(size(driven), 3 * MIB);
});

test("a broken query is no break of data", () => {
  const driven = Driven.inSession({ total: HUGE });
  driven.breaks();
  driven.waits();
  driven.breaks();
  driven.waits();
  driven.gets(incomplete(0));
  assert.equal(size(driven), HUGE);
});

test("a 503 to data counts as a break", () => {
  const driven = Driven.inSession({ total: HUGE });
  for (let n = 0; n < 2; n++) {
    driven.gets(reply(503));
    driven.waits();
    driven.gets(incomplete(0));
  }
  assert.equal(size(driven), 16 * MIB);
});

test("an interruption by the user is no break", () => {
  const driven = Driven.inSession({ total: HUGE });
  for (let n = 0; n < 4; n++) {
    driven.transfer.interrupted();
    assert.equal(driven.does, "query");
    driven.gets(incomplete(0));
  }
  assert.equal(size(driven), HUGE);
});

test("a request that a proxy finds too large is sent in smaller ones at once", () => {
  const driven = Driven.inSession({ total: HUGE });
  const sizes = [];
  for (let n = 0; n < 5; n++) {
    driven.gets(reply(413, {}, "<html>Request Entity Too Large</html>"));
    assert.equal(driven.does, "query");
    driven.gets(incomplete(0));
    sizes.push(size(driven));
  }
  assert.deepEqual(sizes, [64 * MIB, 16 * MIB, 4 * MIB, MIB, Q]);
  driven.gets(reply(413));
  assert.equal(driven.failure, "refused");
});

test("chunks do not grow again above what a proxy has refused", () => {
  const driven = Driven.inSession({ total: HUGE });
  for (let n = 0; n < 4; n++) {
    driven.gets(reply(413));
    driven.gets(incomplete(0));
  }
  for (let n = 0; n < 5; n++) {
    assert.equal(size(driven), MIB);
    succeeds(driven);
  }
  driven.breaksKeeping(5 * MIB);
  driven.breaksKeeping(5 * MIB);
  assert.equal(size(driven), Q);
  succeeds(driven);
  assert.equal(size(driven), 2 * Q);
  succeeds(driven);
  succeeds(driven);
  assert.equal(size(driven), MIB);
});

test("a proxy that takes 64 MiB is not sent more", () => {
  const driven = Driven.inSession({ total: HUGE });
  driven.gets(reply(413));
  driven.gets(incomplete(0));
  succeeds(driven);
  assert.equal(size(driven), 64 * MIB);
});

test("a fixed size does not change", () => {
  const driven = Driven.inSession({ total: HUGE, chunkSize: MIB });
  driven.breaksKeeping(0);
  driven.breaksKeeping(0);
  assert.equal(size(driven), MIB);
  driven.gets(incomplete(Q));
  assert.equal(size(driven), MIB);
  succeeds(driven);
  assert.equal(size(driven), MIB);
  driven.gets(reply(413));
  assert.equal(driven.failure, "refused");
});

test("a fixed size above the media's is one request", () => {
  assert.deepEqual(Driven.inSession({ total: 10, chunkSize: Q }).data, [0, 10]);
});

test("a size that is no multiple of 256 KiB is refused", () => {
  for (const chunkSize of [0, -Q, 1, Q + 1, NaN, 0.5]) {
    assert.throws(() => Driven.start({ total: 10, chunkSize }), RangeError, String(chunkSize));
  }
});
