// Uploads to a windlass binary: PROGRAM_UNDER_TEST names it.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { MemoryJournal } from "../src/journal.js";
import { Broken, LIMITS, byFetch } from "../src/transport.js";
import type { Send } from "../src/transport.js";
import { Upload } from "../src/upload.js";
import { MIB, Q } from "./replies.js";
import { BINARY, Windlass } from "./windlass.js";

function fileOf(size: number): File {
  const bytes = Uint8Array.from({ length: size }, (_, n) => (n * 31 + (n >>> 8)) & 255);
  return new File([bytes], "cow.jpg", { type: "image/jpeg", lastModified: 1 });
}

describe("a windlass server", { skip: BINARY ? false : "PROGRAM_UNDER_TEST is not set" }, () => {
  let server: Windlass;
  let url: string;

  before(async () => {
    server = await Windlass.start();
    url = server.uploads;
  });

  after(() => server.stop());

  async function check(file: File, resource: Record<string, unknown> | null): Promise<void> {
    const media = await server.media(resource!["id"]);
    assert.deepEqual(media, Buffer.from(await file.arrayBuffer()));
  }

  for (const [name, size, chunkSize] of [
    ["in one request", 3 * MIB + 7, undefined],
    ["in chunks", 2 * MIB + 7, Q],
    ["in whole chunks", 2 * MIB, Q],
    ["an empty one", 0, undefined],
  ] as const) {
    test(`takes a file: ${name}`, async () => {
      const file = fileOf(size);
      const metadata = { name: "Bella" };
      const upload = new Upload(file, { url, chunkSize, metadata, journal: new MemoryJournal() });
      const resource = await upload.run();
      assert.equal(resource!["name"], "Bella");
      assert.equal(resource!["size"], String(size));
      assert.equal(typeof resource!["crc32c"], "string");
      await check(file, resource);
    });
  }

  test("continues with a later upload of the same file", async () => {
    const file = fileOf(4 * MIB);
    const journal = new MemoryJournal();
    const broken = () => Promise.reject(new Broken("the page is gone"));
    let committed = 0;
    const send: Send = (...request) => (committed >= MIB ? broken() : byFetch(LIMITS)(...request));
    const retryPolicy = { waits: 0 };
    const first = new Upload(file, { url, chunkSize: Q, journal, send, retryPolicy });
    first.on("progress", ({ progress }) => (committed = progress.committed));
    await assert.rejects(first.run(), /Given up/);

    const second = new Upload(file, { url, journal });
    const offsets: number[] = [];
    second.on("progress", ({ progress }) => offsets.push(progress.committed));
    const resource = await second.run();
    assert.ok(offsets.includes(MIB), String(offsets));
    await check(file, resource);
  });

  test("refuses a type, and says why", async () => {
    const file = new File(["x"], "x.html", { type: "text/html" });
    const upload = new Upload(file, { url, journal: new MemoryJournal() });
    await assert.rejects(upload.run(), /status 400/);
    assert.equal(upload.error?.resumable, false);
  });

  test("is told of a cancellation", async () => {
    const upload = new Upload(fileOf(4 * MIB), { url, chunkSize: Q, journal: new MemoryJournal() });
    upload.on("progress", ({ progress }) => progress.committed >= Q && upload.cancel());
    await assert.rejects(upload.run(), /cancelled/);
    assert.equal(upload.state, "cancelled");
  });
});
