import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { Uppy } from "@uppy/core";

import { MemoryJournal } from "../src/journal.js";
import { Windlass } from "../src/uppy.js";
import type { WindlassOptions } from "../src/uppy.js";
import { MIB } from "./replies.js";
import { FaultyServer } from "./server.js";

type Any = Record<string, unknown>;

let server: FaultyServer;
let uppy: Uppy<Any, Any>;

beforeEach(async () => {
  server = await FaultyServer.start();
  uppy = new Uppy<Any, Any>();
});

afterEach(() => {
  uppy.destroy();
  server.close();
});

function use(options: Partial<WindlassOptions<Any, Any>> = {}): void {
  const journal = new MemoryJournal();
  uppy.use(Windlass, { url: server.url, journal, retryPolicy: { unit: 2 }, ...options });
}

function addFile(name: string, size = 1000): string {
  const data = new File([new Uint8Array(size).fill(name.length)], name, { type: "text/plain" });
  return uppy.addFile({ name, type: "text/plain", data });
}

test("Uppy's files are uploaded, with its progress and result", async () => {
  use({ metadata: (file) => ({ name: file.name }), linkTo: ({ id }) => `/animals/${id}` });
  const progress: number[] = [];
  uppy.on("upload-progress", (_, { bytesUploaded }) => progress.push(bytesUploaded));
  addFile("a.txt");
  addFile("b.txt", MIB);
  const result = await uppy.upload();
  assert.equal(result!.failed!.length, 0);
  assert.deepEqual(result!.successful!.map(({ name }) => name), ["a.txt", "b.txt"]);
  assert.equal(result!.successful![0]!.uploadURL, "/animals/7");
  assert.equal(result!.successful![1]!.response!.body!["size"], String(MIB));
  assert.equal(Math.max(...progress), MIB);
  const starts = server.seen.filter(({ kind }) => kind === "start");
  assert.deepEqual(starts.map(({ body }) => JSON.parse(body.toString()).name), ["a.txt", "b.txt"]);
});

test("a failure is Uppy's, and its retry continues the session", async () => {
  use({ retryPolicy: { unit: 2, waits: 0 } });
  server.faults.data.push("cut");
  const id = addFile("a.txt", MIB);
  const result = await uppy.upload();
  assert.equal(result!.failed!.length, 1);
  assert.match(uppy.getFile(id).error!, /Given up/);
  const again = await uppy.retryUpload(id);
  assert.equal(again!.successful!.length, 1);
  assert.equal(server.story, "start data query data");
});

test("the status of a refusal reaches Uppy", async () => {
  use();
  server.faults.start.push(() => ({ status: 403 }));
  let status: number | undefined;
  uppy.on("upload-error", (_, __, response) => (status = response?.status));
  addFile("a.txt");
  await uppy.upload();
  assert.equal(status, 403);
});

test("all is paused and resumed, and one alone", async () => {
  use();
  server.faults.data.push("silence", "silence");
  const id = addFile("a.txt");
  const done = uppy.upload();
  const starts = () => server.seen.filter(({ kind }) => kind === "data").length;
  const until = async (count: number) => {
    while (starts() < count) await new Promise((resolve) => setTimeout(resolve, 5));
  };
  await until(1);
  uppy.pauseAll();
  uppy.resumeAll();
  await new Promise((resolve) => setTimeout(resolve, 50));
  uppy.pauseResume(id);
  uppy.pauseResume(id);
  const result = await done;
  assert.equal(result!.successful!.length, 1);
});

test("a removed file is cancelled, and the rest arrives", async () => {
  use({ concurrency: 1 });
  server.faults.data.push("silence");
  const id = addFile("a.txt");
  addFile("b.txt");
  const done = uppy.upload();
  while (!server.story.includes("data")) await new Promise((resolve) => setTimeout(resolve, 5));
  uppy.removeFile(id);
  await done;
  assert.equal(uppy.getFiles().length, 1);
  assert.ok(server.finished.length >= 1);
});

test("cancelling all ends the upload", async () => {
  use();
  server.faults.data.push("silence");
  addFile("a.txt");
  const done = uppy.upload();
  while (!server.story.includes("data")) await new Promise((resolve) => setTimeout(resolve, 5));
  uppy.cancelAll();
  await done;
  assert.equal(uppy.getFiles().length, 0);
});

test("Uppy shows buttons to pause as long as the plugin is there", () => {
  use();
  assert.equal(uppy.getState().capabilities.resumableUploads, true);
  uppy.removePlugin(uppy.getPlugin("Windlass")!);
  assert.equal(uppy.getState().capabilities.resumableUploads, false);
});
