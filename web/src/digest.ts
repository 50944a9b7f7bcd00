// The CRC32C of files, computed beside the page's own work.

import { crc32cOf } from "./digest-file.js";

/** The built `digest-worker.ts`, as text: a module of another origin can start no worker by URL. */
declare const WORKER_SOURCE: string;

/** The one worker of this page; null where the page's policy forbids it. */
let worker: Worker | null | undefined;
let lastId = 0;
const waiting = new Map<number, { file: Blob; settle: (crc: Promise<number | null>) => void }>();

/** The CRC32C of a file; null if it cannot be read, or `signal` has ended the work before. */
export function digest(file: Blob, signal: AbortSignal): Promise<number | null> {
  if (worker === undefined) worker = startWorker();
  if (!worker) return here(file, signal);
  const id = ++lastId;
  const used = worker;
  return new Promise((resolve) => {
    waiting.set(id, { file, settle: resolve });
    const cancel = () => void (waiting.has(id) && used.postMessage({ cancel: id }));
    signal.addEventListener("abort", cancel, { once: true });
    used.postMessage({ id, file });
  });
}

function here(file: Blob, signal?: AbortSignal): Promise<number | null> {
  return crc32cOf(file, () => signal?.aborted ?? false).catch(() => null);
}

function startWorker(): Worker | null {
  if (typeof Worker === "undefined") return null;
  const url = URL.createObjectURL(new Blob([WORKER_SOURCE], { type: "text/javascript" }));
  try {
    const started = new Worker(url, { name: "windlass-crc32c" });
    started.onmessage = ({ data }: MessageEvent<{ id: number; crc: number | null }>) => {
      waiting.get(data.id)?.settle(Promise.resolve(data.crc));
      waiting.delete(data.id);
    };
    // The page's policy may forbid it: then this thread does the work, in small pieces.
    started.onerror = () => {
      worker = null;
      for (const { file, settle } of waiting.values()) settle(here(file));
      waiting.clear();
    };
    return started;
  } catch (error) {
    if (error instanceof DOMException) return null;
    throw error;
  }
}
