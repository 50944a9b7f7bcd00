import assert from "node:assert/strict";
import { test } from "node:test";

import { DEFAULT_RETRY_POLICY, MAX_WAIT, wait } from "../src/backoff.js";

const ALMOST_ONE = 1 - Number.EPSILON;

test("the default waits double from one second", () => {
  const waits = [0, 1, 2, 3, 4].map((n) => wait(DEFAULT_RETRY_POLICY, n, 0));
  assert.deepEqual(waits, [1000, 2000, 4000, 8000, 16_000]);
  assert.equal(DEFAULT_RETRY_POLICY.waits, 5);
});

test("the random part is 0 to 1,000 milliseconds, both included", () => {
  assert.equal(wait(DEFAULT_RETRY_POLICY, 0, 0), 1000);
  assert.equal(wait(DEFAULT_RETRY_POLICY, 0, 0.5), 1500);
  assert.equal(wait(DEFAULT_RETRY_POLICY, 0, ALMOST_ONE), 2000);
});

test("further waits stay at the longest", () => {
  for (const n of [5, 6, 100, 5000]) assert.equal(wait(DEFAULT_RETRY_POLICY, n, 0), 32_000);
});

test("no wait is longer than 59 seconds, whatever is set", () => {
  const policy = { ...DEFAULT_RETRY_POLICY, unit: 50_000, longest: 1e9 };
  assert.equal(wait(policy, 10, ALMOST_ONE), MAX_WAIT);
});

test("the random part follows the unit", () => {
  const policy = { ...DEFAULT_RETRY_POLICY, unit: 10 };
  assert.equal(wait(policy, 0, ALMOST_ONE), 20);
  assert.equal(wait(policy, 3, 0), 80);
});
