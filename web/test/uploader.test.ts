import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, test } from "node:test";

import { MemoryJournal } from "../src/journal.js";
import { Rate } from "../src/rate.js";
import type { Upload } from "../src/upload.js";
import { Uploader, accepts } from "../src/uploader.js";
import type { UploaderOptions } from "../src/uploader.js";
import { MIB } from "./replies.js";
import { FaultyServer } from "./server.js";
import type { Fault } from "./server.js";

let server: FaultyServer;
let journal: MemoryJournal;

beforeEach(async () => {
  server = await FaultyServer.start();
  journal = new MemoryJournal();
});

afterEach(() => server.close());

function fileOf(name: string, size = 1000, type = "text/plain"): File {
  return new File([new Uint8Array(size).fill(name.length)], name, { type, lastModified: 1 });
}

function files(count: number): File[] {
  return Array.from({ length: count }, (_, n) => fileOf(`${n}.txt`, 1000 + n));
}

function uploaderOf(options: Partial<UploaderOptions> = {}): Uploader {
  return new Uploader({ url: server.url, journal, retryPolicy: { unit: 2 }, ...options });
}

function idle(uploader: Uploader): Promise<void> {
  return new Promise((resolve) => {
    const off = uploader.on("idle", () => (off(), resolve()));
  });
}

function states(uploader: Uploader): string[] {
  return uploader.uploads.map(({ state }) => state);
}

test("all files arrive, at most three at once", async () => {
  const uploader = uploaderOf();
  let most = 0;
  const isActive = ({ state }: Upload) => !["ready", "finished"].includes(state);
  uploader.on("state", () => (most = Math.max(most, uploader.uploads.filter(isActive).length)));
  uploader.add(files(12));
  await idle(uploader);
  assert.equal(server.finished.length, 12);
  assert.equal(most, 3);
  assert.equal(uploader.progress.committed, uploader.progress.total);
});

test("one at a time keeps their order", async () => {
  const uploader = uploaderOf({ concurrency: 1 });
  uploader.add(files(4));
  await idle(uploader);
  assert.deepEqual(server.finished.map(({ length }) => length), [1000, 1001, 1002, 1003]);
});

test("a number of uploads that cannot be is refused", () => {
  for (const concurrency of [0, -1, 1.5, NaN]) {
    assert.throws(() => uploaderOf({ concurrency }), RangeError);
  }
});

test("one failure stops no other upload, and can be tried again", async () => {
  const uploader = uploaderOf({ concurrency: 1 });
  server.faults.start.push(undefined, () => ({ status: 400 }));
  uploader.add(files(3));
  await idle(uploader);
  assert.deepEqual(states(uploader), ["finished", "failed", "finished"]);
  uploader.retry(uploader.uploads[1]!);
  uploader.retry(uploader.uploads[1]!);
  await idle(uploader);
  assert.deepEqual(states(uploader), ["finished", "finished", "finished"]);
  assert.equal(server.finished.length, 3);
});

test("while all is paused nothing begins", async () => {
  const uploader = uploaderOf();
  uploader.pause();
  uploader.add(files(3));
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(server.story, "");
  assert.ok(uploader.isPaused);
  uploader.resume();
  await idle(uploader);
  assert.equal(server.finished.length, 3);
});

test("all that runs is paused and resumed", async () => {
  const uploader = uploaderOf();
  server.faults.data.push("silence", "silence", "silence");
  uploader.add(files(5));
  await new Promise((resolve) => setTimeout(resolve, 100));
  uploader.pause();
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.deepEqual(states(uploader), ["paused", "paused", "paused", "ready", "ready"]);
  uploader.resume();
  await idle(uploader);
  assert.equal(server.finished.length, 5);
});

test("in the place of a paused upload another runs", async () => {
  const uploader = uploaderOf({ concurrency: 1 });
  server.faults.data.push("silence");
  const [first] = uploader.add(files(2));
  await new Promise((resolve) => setTimeout(resolve, 50));
  first!.pause();
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.deepEqual(states(uploader), ["paused", "finished"]);
  first!.resume();
  await idle(uploader);
  assert.deepEqual(states(uploader), ["finished", "finished"]);
});

test("cancel ends what runs and what waits", async () => {
  const uploader = uploaderOf({ concurrency: 1 });
  server.faults.data.push("silence");
  uploader.add(files(3));
  await new Promise((resolve) => setTimeout(resolve, 50));
  uploader.cancel();
  await idle(uploader);
  assert.deepEqual(states(uploader), ["cancelled", "cancelled", "cancelled"]);
  assert.equal(server.seen.filter(({ kind }) => kind === "data").length, 1);
  assert.equal(uploader.progress.total, 0);
});

test("a removed upload is cancelled, a finished one only removed", async () => {
  const uploader = uploaderOf({ concurrency: 1 });
  const removed: string[] = [];
  uploader.on("removed", ({ upload }) => removed.push(upload.source.path));
  const [first, second] = uploader.add(files(2));
  uploader.remove(second!);
  await idle(uploader);
  uploader.remove(first!);
  uploader.remove(first!);
  assert.deepEqual(removed, ["1.txt", "0.txt"]);
  assert.deepEqual([first!.state, second!.state], ["finished", "cancelled"]);
  assert.equal(uploader.uploads.length, 0);
  assert.equal(server.finished.length, 1);
});

test("a file that is not taken is not sent", async () => {
  const uploader = uploaderOf({ accept: "image/*,.txt", maxSize: 1500 });
  const rejected: [string, string][] = [];
  uploader.on("rejected", ({ source, why }) => rejected.push([source.path, why.is]));
  const image = fileOf("a.png", 10, "image/png");
  uploader.add([image, fileOf("a.txt"), fileOf("b.txt", 1501), fileOf("c.pdf")]);
  await idle(uploader);
  assert.deepEqual(rejected, [["b.txt", "size"], ["c.pdf", "type"]]);
  assert.equal(server.finished.length, 2);
});

test("types and ends of names are accepted as by a form", () => {
  const file = fileOf("Cow.JPG", 1, "image/jpeg");
  for (const [accept, expected] of [
    ["image/*", true], ["image/jpeg", true], ["IMAGE/JPEG", true], [".jpg", true],
    ["*/*", true], ["video/*, .jpg", true], ["image/png", false], [".png", false],
    ["video/*", false], [".jp", false], [",", false],
  ] as const) {
    assert.equal(accepts(accept, file), expected, accept);
  }
});

test("URL and metadata may depend on the file and its path", async () => {
  const uploader = uploaderOf({
    url: ({ path }) => `${server.url}?name=${encodeURIComponent(path)}`,
    metadata: ({ path, file }) => ({ name: path, size: file.size }),
  });
  uploader.add([{ file: fileOf("b.txt"), path: "a/b.txt" }]);
  await idle(uploader);
  const start = server.seen[0]!;
  assert.match(start.url, /name=a%2Fb\.txt/);
  assert.deepEqual(JSON.parse(start.body.toString()), { name: "a/b.txt", size: 1000 });
});

describe("unfinished uploads", () => {
  async function leave(file: File): Promise<void> {
    server.faults.data.push("cut");
    server.faults.query.push(...Array<Fault>(6).fill("refuse"));
    const uploader = uploaderOf();
    uploader.add([file]);
    await idle(uploader);
    server.faults.query.length = 0;
    server.seen.length = 0;
  }

  test("a later page lists them, and those of its own URL alone", async () => {
    await leave(fileOf("a.txt", MIB));
    const [unfinished, ...others] = await uploaderOf().unfinished();
    assert.equal(unfinished!.path, "a.txt");
    assert.equal(unfinished!.size, MIB);
    assert.equal(unfinished!.hasFile, false);
    assert.equal(typeof unfinished!.sent, "number");
    assert.deepEqual(others, []);
    assert.doesNotMatch(JSON.stringify(unfinished), /secret/);
    assert.deepEqual(await uploaderOf({ url: `${server.url}2` }).unfinished(), []);
  });

  test("the file continues where it was, and is listed no more", async () => {
    const file = fileOf("a.txt", MIB);
    await leave(file);
    const uploader = uploaderOf();
    uploader.add([file]);
    assert.deepEqual(await uploader.unfinished(), []);
    await idle(uploader);
    assert.equal(server.story, "query data");
    assert.deepEqual(await uploader.unfinished(), []);
  });

  test("one with a handle continues without being chosen", async () => {
    const file = fileOf("a.txt", MIB);
    await leave(file);
    const [record] = await journal.list();
    let permission = "prompt";
    const handle = {
      requestPermission: () => Promise.resolve(permission),
      getFile: () => Promise.resolve(file),
    } as unknown as FileSystemFileHandle;
    await journal.put({ ...record!, handle });
    const uploader = uploaderOf();
    const [unfinished] = await uploader.unfinished();
    assert.ok(unfinished!.hasFile);
    assert.equal(await uploader.continue(unfinished!), false);
    permission = "granted";
    assert.equal(await uploader.continue(unfinished!), true);
    await idle(uploader);
    assert.equal(server.story, "query data");
  });

  test("one without a handle, or whose file is gone, must be chosen again", async () => {
    await leave(fileOf("a.txt", MIB));
    const uploader = uploaderOf();
    const [unfinished] = await uploader.unfinished();
    assert.equal(await uploader.continue(unfinished!), false);
    const [record] = await journal.list();
    const gone = () => Promise.reject(new DOMException("gone", "NotFoundError"));
    await journal.put({ ...record!, handle: { getFile: gone } as unknown as FileSystemFileHandle });
    const [other] = await uploader.unfinished();
    assert.equal(await uploader.continue(other!), false);
  });

  test("one that is discarded is cancelled on the server, too", async () => {
    await leave(fileOf("a.txt", MIB));
    const uploader = uploaderOf();
    const [unfinished] = await uploader.unfinished();
    await uploader.discard(unfinished!);
    assert.equal(server.story, "delete");
    assert.deepEqual(await uploader.unfinished(), []);
  });
});

test("the rate is that of the last seconds", () => {
  const rate = new Rate(1000);
  assert.equal(rate.value, null);
  rate.add(0, 0);
  rate.add(100, 1000);
  assert.equal(rate.value, null);
  rate.add(600, 6000);
  assert.equal(rate.value, 10_000);
  for (let at = 700; at <= 3000; at += 100) rate.add(at, 6000);
  assert.equal(rate.value, 0);
  rate.add(3100, 10);
  assert.equal(rate.value, null);
});
