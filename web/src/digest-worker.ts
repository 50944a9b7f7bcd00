// Computes the CRC32C of files in a worker: a message with a file and an id is answered by one with
// the id and the digest, or with null if the file cannot be read.

import { crc32cOf } from "./digest-file.js";

interface Job {
  id: number;
  file: Blob;
}

let queue: Promise<void> = Promise.resolve();
const cancelled = new Set<number>();

// One file at a time: several at once would be read no sooner.
addEventListener("message", ({ data }: MessageEvent<Job | { cancel: number }>) => {
  if ("cancel" in data) {
    cancelled.add(data.cancel);
    return;
  }
  const { id, file } = data;
  queue = queue.then(async () => {
    const crc = await crc32cOf(file, () => cancelled.has(id)).catch(() => null);
    cancelled.delete(id);
    postMessage({ id, crc });
  });
});
