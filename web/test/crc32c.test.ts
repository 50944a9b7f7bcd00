import assert from "node:assert/strict";
import { test } from "node:test";

import { crc32c, toBase64 } from "../src/crc32c.js";
import { crc32cOf } from "../src/digest-file.js";
import { ends } from "../src/source.js";

const ascii = (text: string) => new TextEncoder().encode(text);

test("the vectors of RFC 3720 hold", () => {
  const ascending = Uint8Array.from({ length: 32 }, (_, n) => n);
  for (const [bytes, expected] of [
    [new Uint8Array(32), 0x8a9136aa],
    [new Uint8Array(32).fill(0xff), 0x62a8ab43],
    [ascending, 0x46dd794e],
    [ascending.toReversed(), 0x113fdb5c],
    [ascii("123456789"), 0xe3069283],
    [ascii("a"), 0xc1d04330],
    [new Uint8Array(), 0],
  ] as const) {
    assert.equal(crc32c(bytes), expected);
  }
});

test("the digest does not depend on how the bytes are divided", () => {
  const bytes = Uint8Array.from({ length: 1000 }, (_, n) => (n * 7919) >>> 3);
  const whole = crc32c(bytes);
  for (const at of [0, 1, 7, 8, 9, 500, 993, 999, 1000]) {
    assert.equal(crc32c(bytes.subarray(at), crc32c(bytes.subarray(0, at))), whole, String(at));
  }
});

test("a digest is written as resources state it", () => {
  assert.equal(toBase64(crc32c(ascii("123456789"))), "4waSgw==");
  assert.equal(toBase64(0), "AAAAAA==");
});

test("a file is digested in pieces", async () => {
  const bytes = Uint8Array.from({ length: 2 * 1024 * 1024 + 5 }, (_, n) => n % 251);
  assert.equal(await crc32cOf(new Blob([bytes]), () => false), crc32c(bytes));
});

test("a digest that is not wanted any more ends", async () => {
  assert.equal(await crc32cOf(new Blob([new Uint8Array(100)]), () => true), null);
});

test("the ends of a file identify it, and its middle does not", async () => {
  const bytes = new Uint8Array(200_000);
  const before = await ends(new Blob([bytes]));
  for (const at of [0, 65_535, 100_000, 199_999]) {
    const other = bytes.slice();
    other[at] = 1;
    const same = before === (await ends(new Blob([other])));
    assert.equal(same, at === 100_000, String(at));
  }
  assert.notEqual(await ends(new Blob(["a"])), await ends(new Blob(["b"])));
  assert.equal(await ends(new Blob([])), "AAAAAA==");
});
