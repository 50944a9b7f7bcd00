// Many uploads, some of them at once.

import { Access, absolute } from "./access.js";
import { Emitter } from "./emitter.js";
import type { UploadError } from "./errors.js";
import { targetOf } from "./journal.js";
import type { Journal, JournalRecord } from "./journal.js";
import { Rate } from "./rate.js";
import type { Resource } from "./reply.js";
import { sourceOf } from "./source.js";
import type { Source } from "./source.js";
import { defaultSend } from "./transport.js";
import { Upload, cancelSession, defaultJournal } from "./upload.js";
import type { Progress, UploadOptions, UploadState } from "./upload.js";

/** Where files go, and how. */
export interface UploaderOptions extends Omit<UploadOptions, "url" | "metadata"> {
  /** The upload URL, or a function that returns that of a file. */
  url: string | URL | ((source: Source) => string | URL);
  /** The metadata of each resource, or a function that returns that of a file. */
  metadata?: Resource | ((source: Source) => Resource | undefined) | undefined;
  /** How many uploads run at once. Default: 3. */
  concurrency?: number | undefined;
  /** The types that are taken, as the attribute `accept` of a form's input: `image/*,.pdf`. */
  accept?: string | undefined;
  /** The largest size that is taken, in bytes. */
  maxSize?: number | undefined;
}

export interface UploaderEvents {
  added: { upload: Upload };
  /** A file was not taken, and nothing of it was sent. */
  rejected: { source: Source; why: Rejection };
  /** An upload was removed from the list. */
  removed: { upload: Upload };
  state: { upload: Upload; state: UploadState };
  progress: { upload: Upload; progress: Progress };
  finished: { upload: Upload; resource: Resource | null };
  failed: { upload: Upload; error: UploadError };
  /** Nothing runs and nothing waits for its turn. */
  idle: { uploads: readonly Upload[] };
}

/** Why a file was not taken. */
export type Rejection = { is: "type"; accept: string } | { is: "size"; maxSize: number };

/** An upload that an earlier page began and did not end. */
export interface Unfinished {
  path: string;
  size: number;
  /** About how many bytes were sent. */
  sent: number;
  /** When it began, in milliseconds since the epoch. */
  started: number;
  /** Whether it can be continued without the file's being chosen again. */
  hasFile: boolean;
}

/** Milliseconds between measurements of the rate of all uploads. */
const MEASURE_EVERY = 100;

/** What handles have where their permission can be asked for. */
interface WithPermission {
  requestPermission?: (descriptor: { mode: "read" }) => Promise<PermissionState>;
}

export class Uploader extends Emitter<UploaderEvents> {
  readonly #options: UploaderOptions;
  readonly #journal: Journal;
  readonly #rate = new Rate();
  readonly #uploads: Upload[] = [];
  /** Those that wait for their turn. */
  readonly #queue: Upload[] = [];
  readonly #records = new WeakMap<Unfinished, JournalRecord>();
  readonly #running = new Set<Upload>();
  #measured = 0;
  #isPaused = false;

  constructor(options: UploaderOptions) {
    super();
    const { concurrency = 3 } = options;
    if (!Number.isInteger(concurrency) || concurrency < 1) {
      throw new RangeError(`${concurrency} uploads cannot run at once`);
    }
    this.#options = options;
    this.#journal = options.journal ?? defaultJournal();
  }

  get uploads(): readonly Upload[] {
    return this.#uploads;
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** That of all uploads that were not cancelled. */
  get progress(): Progress {
    let [sent, committed, total] = [0, 0, 0];
    for (const upload of this.#uploads) {
      if (upload.state === "cancelled") continue;
      const progress = upload.progress;
      sent += progress.sent;
      committed += progress.committed;
      total += progress.total;
    }
    const rate = this.#running.size > 0 && !this.#isPaused ? this.#rate.value : null;
    return { sent, committed, total, rate, remaining: rate ? (total - sent) / rate : null };
  }

  /** Takes files and uploads them in this order. A file that is not taken is `rejected`. */
  add(files: Iterable<File | Source>): Upload[] {
    const added: Upload[] = [];
    for (const source of [...files].map(sourceOf)) {
      const why = this.#rejection(source);
      if (why) {
        this.emit("rejected", { source, why });
        continue;
      }
      const upload = new Upload(source, this.#optionsOf(source));
      this.#follow(upload);
      this.#uploads.push(upload);
      this.#queue.push(upload);
      added.push(upload);
      this.emit("added", { upload });
    }
    this.#next();
    return added;
  }

  /** Pauses what runs, and begins nothing. */
  pause(): void {
    this.#isPaused = true;
    for (const upload of this.#uploads) upload.pause();
  }

  resume(): void {
    this.#isPaused = false;
    for (const upload of this.#uploads) upload.resume();
    this.#next();
  }

  cancel(): void {
    for (const upload of this.#uploads) upload.cancel();
  }

  /** Puts a failed upload into the queue again. */
  retry(upload: Upload): void {
    if (upload.state !== "failed" || this.#queue.includes(upload)) return;
    this.#queue.push(upload);
    this.#next();
  }

  /** Cancels an upload unless it has ended, and removes it from the list. */
  remove(upload: Upload): void {
    const at = this.#uploads.indexOf(upload);
    if (at < 0) return;
    upload.cancel();
    this.#uploads.splice(at, 1);
    this.emit("removed", { upload });
  }

  /**
   * The uploads to the same URL that earlier pages left, the newest first. A function for URLs is
   * called with their paths and empty files.
   */
  async unfinished(): Promise<Unfinished[]> {
    const records = await this.#journal.list();
    const here = new Set(this.#uploads.map((upload) => upload.key));
    return records
      .filter(({ path, target }) => target === this.#targetOf(path))
      .filter((record) => !here.has(record.key))
      .map((record) => {
        const { path, size, sent, started } = record;
        const hasFile = record.handle !== undefined;
        const unfinished = { path, size, sent, started, hasFile };
        this.#records.set(unfinished, record);
        return unfinished;
      });
  }

  /**
   * Continues an upload of an earlier page with the file that the browser remembers. Call it when
   * the user acts: the browser may ask for permission. False if the file must be chosen again; to
   * `add` it then continues the upload, too.
   */
  async continue(unfinished: Unfinished): Promise<boolean> {
    const record = this.#records.get(unfinished);
    const handle = record?.handle;
    if (!record || !handle) return false;
    const allowed = await (handle as WithPermission).requestPermission?.({ mode: "read" });
    if (allowed === "denied" || allowed === "prompt") return false;
    let file: File;
    try {
      file = await handle.getFile();
    } catch (error) {
      // The file is not there any more.
      if (error instanceof DOMException) return false;
      throw error;
    }
    this.add([{ file, path: record.path, handle }]);
    return true;
  }

  /** Forgets an upload of an earlier page, here and on the server. */
  async discard(unfinished: Unfinished): Promise<void> {
    const record = this.#records.get(unfinished);
    if (!record) return;
    await this.#journal.delete(record.key);
    const access = new Access({ ...this.#options, url: this.#urlOf(record.path) });
    if (!access.allows(new URL(record.session))) return;
    await cancelSession(record.session, access, this.#options.send ?? defaultSend());
  }

  #optionsOf(source: Source): UploadOptions {
    const { url, metadata } = this.#options;
    return {
      ...this.#options,
      journal: this.#journal,
      url: typeof url === "function" ? url(source) : url,
      metadata: typeof metadata === "function" ? metadata(source) : metadata,
    };
  }

  /** The upload URL of an upload of which only the path is known. */
  #urlOf(path: string): string | URL {
    const { url } = this.#options;
    return typeof url === "function" ? url({ path, file: new File([], path) }) : url;
  }

  #targetOf(path: string): string {
    return targetOf(absolute(this.#urlOf(path)));
  }

  #rejection({ file }: Source): Rejection | null {
    const { accept, maxSize } = this.#options;
    if (accept && !accepts(accept, file)) return { is: "type", accept };
    if (maxSize !== undefined && file.size > maxSize) return { is: "size", maxSize };
    return null;
  }

  #follow(upload: Upload): void {
    upload.on("finished", (event) => this.emit("finished", event));
    upload.on("failed", (event) => this.emit("failed", event));
    upload.on("state", (event) => {
      this.emit("state", event);
      // Another may run in the place of one that is paused.
      if (event.state === "paused") this.#next();
    });
    upload.on("progress", (event) => {
      const now = Date.now();
      if (now - this.#measured >= MEASURE_EVERY) {
        this.#measured = now;
        this.#rate.add(now, this.progress.sent);
      }
      this.emit("progress", event);
    });
  }

  #next(): void {
    const { concurrency = 3 } = this.#options;
    const active = () => [...this.#running].filter(({ state }) => state !== "paused").length;
    while (!this.#isPaused && active() < concurrency) {
      const upload = this.#queue.shift();
      if (!upload) break;
      if (upload.state === "ready" || upload.state === "failed") void this.#run(upload);
    }
  }

  async #run(upload: Upload): Promise<void> {
    this.#running.add(upload);
    // The events tell of a failure.
    await upload.run().catch(() => {});
    this.#running.delete(upload);
    this.#next();
    if (this.#running.size === 0) this.emit("idle", { uploads: this.uploads });
  }
}

/** Whether an attribute `accept` takes a file, by its type or by the end of its name. */
export function accepts(accept: string, { name, type }: File): boolean {
  return accept.split(",").some((part) => {
    const wanted = part.trim().toLowerCase();
    if (wanted.startsWith(".")) return name.toLowerCase().endsWith(wanted);
    if (wanted === "*/*" || wanted === "*") return true;
    if (wanted.endsWith("/*")) return type.toLowerCase().startsWith(wanted.slice(0, -1));
    return wanted !== "" && type.toLowerCase() === wanted;
  });
}
