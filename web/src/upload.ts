// One upload: carries out what its transfer decides.

import { Access } from "./access.js";
import type { AccessOptions } from "./access.js";
import type { RetryPolicy } from "./backoff.js";
import { toBase64 } from "./crc32c.js";
import { digest } from "./digest.js";
import { Emitter } from "./emitter.js";
import { UploadError, causeText } from "./errors.js";
import { IndexedDbJournal, MemoryJournal, targetOf } from "./journal.js";
import type { Journal, JournalRecord } from "./journal.js";
import { Rate } from "./rate.js";
import type { Reply, Resource } from "./reply.js";
import { ends, isReadable, sourceOf } from "./source.js";
import type { Source } from "./source.js";
import { Transfer, contentRange } from "./transfer.js";
import type { Action, Wait } from "./transfer.js";
import { Broken, defaultSend } from "./transport.js";
import type { Request, Send } from "./transport.js";

/** Where a file goes, and how. */
export interface UploadOptions extends AccessOptions {
  /** The HTTP method of the start. Default: `POST`. */
  method?: "POST" | "PUT" | "PATCH" | undefined;
  /** The media type. Default: the file's own, if the browser knows it. */
  type?: string | undefined;
  /** The metadata of the resource. Default: none. */
  metadata?: Resource | undefined;
  /** The size of all chunks, a multiple of 256 KiB. By default sizes adapt to the network. */
  chunkSize?: number | undefined;
  /** How often, and after which waits, failed requests are repeated. */
  retryPolicy?: Partial<RetryPolicy> | undefined;
  /** Whether the resource's `crc32c` is compared with the file's at the end. Default: true. */
  verify?: boolean | undefined;
  /** What a later page continues from. Default: IndexedDB. */
  journal?: Journal | undefined;
  /** How requests are sent. Default: `XMLHttpRequest`, or `fetch` where it is missing. */
  send?: Send | undefined;
}

/** What an upload is doing. */
export type UploadState =
  /** It has not begun. */
  | "ready"
  /** It starts a session, or asks one for its state. */
  | "starting"
  | "sending"
  /** It waits for its next attempt, after a failure. */
  | "waiting"
  | "paused"
  /** All is sent; the checksum is computed. */
  | "verifying"
  | "finished"
  | "failed"
  | "cancelled";

/** How far an upload is. All sizes are in bytes. */
export interface Progress {
  /** Committed bytes, and those of the current request that have left this page. */
  sent: number;
  /** Bytes that the server has reported as committed. */
  committed: number;
  total: number;
  /** Bytes in a second; null while nothing can be said. */
  rate: number | null;
  /** Seconds until the end at this rate; null while nothing can be said. */
  remaining: number | null;
}

export interface UploadEvents {
  state: { upload: Upload; state: UploadState };
  progress: { upload: Upload; progress: Progress };
  finished: { upload: Upload; resource: Resource | null };
  failed: { upload: Upload; error: UploadError };
}

/** Why an upload waits, until when, and which attempt follows. */
export interface Waiting {
  /** In milliseconds since the epoch. */
  until: number;
  attempt: number;
  of: number;
  /** In words, for people. */
  why: string;
}

/** The reason of an abort by `pause` or `cancel`. */
const INTERRUPTED = Symbol("interrupted");

/** How long a cancelled session is told so, in milliseconds. */
const FAREWELL = 10_000;

/** The keys of the uploads of this page that run. */
const running = new Set<string>();

let pageJournal: Journal | undefined;

/** The journal of this page, where no other is given. */
export function defaultJournal(): Journal {
  pageJournal ??= typeof indexedDB === "undefined" ? new MemoryJournal() : new IndexedDbJournal();
  return pageJournal;
}

export class Upload extends Emitter<UploadEvents> {
  readonly source: Source;
  /** The resource at the end, if the server shows one. */
  resource: Resource | null = null;
  /** Why the upload has failed. */
  error: UploadError | null = null;
  /** The wait before the next attempt. */
  waiting: Waiting | null = null;
  /** Whether a later page can continue the upload. */
  recorded = false;

  readonly #options: UploadOptions;
  readonly #access: Access;
  readonly #journal: Journal;
  readonly #send: Send;
  readonly #rate = new Rate();
  #state: UploadState = "ready";
  #transfer: Transfer | null = null;
  #record: JournalRecord | null = null;
  #sentNow = 0;
  #digest: Promise<number | null> | null = null;
  /** Ends the current request or wait. */
  #step = new AbortController();
  /** Ends what lasts as long as the upload. */
  #life = new AbortController();
  #wanted: "run" | "pause" | "cancel" = "run";
  #wake: () => void = () => {};
  #notedAt = 0;

  constructor(file: File | Source, options: UploadOptions) {
    super();
    this.source = sourceOf(file);
    this.#options = options;
    this.#access = new Access(options);
    this.#journal = options.journal ?? defaultJournal();
    this.#send = options.send ?? defaultSend();
    // Finds a wrong chunk size now.
    this.#plan(Transfer.start);
  }

  get state(): UploadState {
    return this.#state;
  }

  get progress(): Progress {
    const total = this.source.file.size;
    const committed = this.#transfer?.committed ?? 0;
    const sent = this.#state === "finished" ? total : Math.min(total, committed + this.#sentNow);
    const rate = this.#state === "sending" ? this.#rate.value : null;
    const remaining = rate ? (total - sent) / rate : null;
    return { sent, committed, total, rate, remaining };
  }

  /**
   * Runs the upload, from where an earlier page has left it. Another call after a failure begins
   * again, in the same session if that is left. Resolves with the resource, when all is committed
   * and compared. Rejects with an `UploadError`, also when the upload is cancelled.
   */
  async run(): Promise<Resource | null> {
    if (this.#state !== "ready" && this.#state !== "failed") {
      throw new TypeError(`an upload that is ${this.#state} cannot be run`);
    }
    this.error = null;
    // A pause that came as the last run ended is over.
    this.#wanted = "run";
    this.#life = new AbortController();
    this.#enter("starting");
    try {
      const resource = await locked(this.key, () => this.#work());
      this.resource = resource;
      this.#enter("finished");
      this.#changed();
      this.emit("finished", { upload: this, resource });
      return resource;
    } catch (error) {
      throw this.#ended(error);
    } finally {
      this.#life.abort();
      this.#digest = null;
    }
  }

  /** Ends the current request. What is committed stays; `resume` asks for it. */
  pause(): void {
    if (!this.#isRunning() || this.#wanted !== "run") return;
    this.#wanted = "pause";
    this.#step.abort(INTERRUPTED);
  }

  resume(): void {
    if (this.#wanted !== "pause") return;
    this.#wanted = "run";
    this.#wake();
  }

  /** Gives the upload up, here and on the server. */
  cancel(): void {
    if (this.#state === "finished" || this.#state === "cancelled") return;
    const runs = this.#isRunning();
    this.#wanted = "cancel";
    this.#step.abort(INTERRUPTED);
    this.#wake();
    if (!runs) void this.#giveUp();
  }

  #isRunning(): boolean {
    return !["ready", "finished", "failed", "cancelled"].includes(this.#state);
  }

  #enter(state: UploadState): void {
    if (this.#state === state) return;
    this.#state = state;
    if (state !== "waiting") this.waiting = null;
    if (state !== "sending") this.#rate.reset();
    this.emit("state", { upload: this, state });
  }

  #changed(): void {
    this.emit("progress", { upload: this, progress: this.progress });
  }

  #plan(begin: (plan: Parameters<typeof Transfer.start>[0]) => Transfer): Transfer {
    return begin({
      total: this.source.file.size,
      chunkSize: this.#options.chunkSize,
      retryPolicy: this.#options.retryPolicy,
      refreshable: this.#access.refreshable,
    });
  }

  #mediaType(): string {
    return this.#options.type ?? this.source.file.type;
  }

  /** Equal for uploads of the same file to the same place. */
  get key(): string {
    const { path, file } = this.source;
    const { method = "POST", metadata = null } = this.#options;
    const what = [method, metadata, this.#mediaType(), path, file.size, file.lastModified];
    return JSON.stringify([targetOf(this.#access.url), ...what]);
  }

  async #work(): Promise<Resource | null> {
    const transfer = (this.#transfer = await this.#open());
    this.#changed();
    for (;;) {
      if (this.#wanted !== "run") await this.#paused();
      const { action } = transfer;
      if (action.do === "finish") return this.#verified(action.resource);
      if (action.do === "fail") throw UploadError.of(action.failure);
      this.#step = new AbortController();
      try {
        await this.#act(transfer, action);
      } catch (error) {
        if (error !== INTERRUPTED) throw error;
        transfer.interrupted();
        this.#sentNow = 0;
      }
    }
  }

  /** Continues the session of an earlier page if the file is still the same. */
  async #open(): Promise<Transfer> {
    this.#record ??= (await this.#recall()) ?? null;
    const record = this.#record;
    if (!record) return this.#plan(Transfer.start);
    const allowed = this.#access.allows(new URL(record.session));
    if (allowed && record.ends === (await this.#ends())) return this.#plan(Transfer.resume);
    await this.#forget();
    return this.#plan(Transfer.start);
  }

  /** A journal that cannot be read is like an empty one. */
  async #recall(): Promise<JournalRecord | undefined> {
    try {
      const record = await this.#journal.get(this.key);
      this.recorded = record !== undefined;
      return record;
    } catch (error) {
      if (error instanceof DOMException) return undefined;
      throw error;
    }
  }

  async #ends(): Promise<string> {
    try {
      return await ends(this.source.file);
    } catch (error) {
      throw fileChanged(error);
    }
  }

  /** Waits until the upload is resumed. */
  async #paused(): Promise<void> {
    if (this.#wanted === "pause") {
      this.#enter("paused");
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
    if (this.#wanted === "cancel") throw new UploadError("cancelled", "The upload was cancelled");
  }

  async #act(transfer: Transfer, action: Action): Promise<void> {
    switch (action.do) {
      case "start":
        this.#enter("starting");
        return this.#exchange(transfer, this.#start());
      case "query":
        this.#enter("starting");
        return this.#exchange(transfer, this.#inSession(null));
      case "data": {
        const { first, end } = action.chunk;
        if (!(await isReadable(this.source.file))) throw fileChanged();
        if (this.#options.verify !== false) {
          this.#digest ??= digest(this.source.file, this.#life.signal);
        }
        this.#enter("sending");
        const body = end > first ? this.source.file.slice(first, end) : null;
        const request = this.#inSession(body, contentRange(action.chunk, this.source.file.size));
        return this.#exchange(transfer, request);
      }
      case "wait":
        await this.#wait(action.wait);
        return transfer.waited();
      case "refresh-token":
        await this.#access.refresh();
        return transfer.tokenRefreshed();
      case "finish":
      case "fail":
        return;
    }
  }

  async #exchange(transfer: Transfer, request: Request): Promise<void> {
    await this.#access.authorize(request);
    const onSent = request.body instanceof Blob ? (bytes: number) => this.#left(bytes) : undefined;
    let reply: Reply;
    try {
      const { signal } = this.#step;
      const { credentials } = this.#access;
      reply = await this.#send(request, { signal, onSent, credentials });
    } catch (error) {
      if (!(error instanceof Broken)) throw error;
      this.#sentNow = 0;
      if (!(await isReadable(this.source.file))) throw fileChanged(error);
      transfer.broke(Math.random(), globalThis.navigator?.onLine === false);
      return;
    }
    const event = transfer.replied(reply, Math.random(), Date.now());
    this.#sentNow = 0;
    if (event.is === "started") await this.#started(event.location);
    if (event.is === "lost") await this.#forget();
    if (event.is !== "nothing") this.#changed();
  }

  #left(bytes: number): void {
    this.#sentNow = bytes;
    this.#rate.add(Date.now(), this.progress.sent);
    this.#note();
    this.#changed();
  }

  #start(): Request {
    const headers: Record<string, string> = {
      "X-Upload-Content-Length": String(this.source.file.size),
    };
    const type = this.#mediaType();
    if (type) headers["X-Upload-Content-Type"] = type;
    const { method = "POST", metadata } = this.#options;
    if (metadata) headers["Content-Type"] = "application/json; charset=UTF-8";
    const body = metadata ? JSON.stringify(metadata) : null;
    return { method, url: startUrl(this.#access.url), headers, body };
  }

  #inSession(body: Blob | null, range = contentRange(null, this.source.file.size)): Request {
    const url = this.#record!.session;
    return { method: "PUT", url, headers: { "Content-Range": range }, body };
  }

  async #started(location: string): Promise<void> {
    const session = resolved(location, this.#access.url);
    if (!session || !this.#access.allows(session)) {
      const where = session ? `at ${session.origin}` : "without a URL";
      const text = `The server began a session ${where}, which may not have the file`;
      throw new UploadError("session-elsewhere", text);
    }
    const { path, file, handle } = this.source;
    this.#record = {
      key: this.key,
      target: targetOf(this.#access.url),
      session: session.href,
      path,
      size: file.size,
      type: this.#mediaType(),
      ends: await this.#ends(),
      sent: 0,
      started: Date.now(),
      handle,
    };
    await this.#keep(this.#journal.put(this.#record));
  }

  /** Without a journal, as when the disk is full, the upload goes on as long as the page. */
  async #keep(kept: Promise<void>): Promise<void> {
    this.recorded = true;
    try {
      await kept;
    } catch (error) {
      if (!(error instanceof DOMException)) throw error;
      this.recorded = false;
    }
  }

  /** Notes at most once a second how much was sent: it only informs. */
  #note(): void {
    if (!this.#record || !this.recorded || Date.now() - this.#notedAt < 1000) return;
    this.#notedAt = Date.now();
    this.#record.sent = this.progress.sent;
    void this.#keep(this.#journal.note(this.#record));
  }

  async #forget(): Promise<void> {
    this.#record = null;
    if (!this.recorded) return;
    this.recorded = false;
    try {
      await this.#journal.delete(this.key);
    } catch (error) {
      if (!(error instanceof DOMException)) throw error;
    }
  }

  async #wait({ delay, attempt, of, cause }: Wait): Promise<void> {
    this.waiting = { until: Date.now() + delay, attempt, of, why: causeText(cause) };
    this.#enter("waiting");
    await sleep(delay, this.#step.signal);
  }

  /** Compares what the resource states with the file. */
  async #verified(resource: Resource | null): Promise<Resource | null> {
    await this.#forget();
    const size = resource?.["size"];
    const total = this.source.file.size;
    if ((typeof size === "string" || typeof size === "number") && Number(size) !== total) {
      throw differs(`the size ${Number(size)}, not ${total}`);
    }
    const stated = resource?.["crc32c"];
    if (typeof stated !== "string" || this.#options.verify === false) return resource;
    this.#enter("verifying");
    this.#digest ??= digest(this.source.file, this.#life.signal);
    const crc = await this.#digest;
    if (crc === null) throw fileChanged();
    if (toBase64(crc) !== stated) throw differs("another checksum than this file");
    return resource;
  }

  /** The error that `run` ends with. */
  #ended(error: unknown): UploadError {
    if (this.#wanted === "cancel") {
      void this.#giveUp();
      return new UploadError("cancelled", "The upload was cancelled");
    }
    const failure =
      error instanceof UploadError
        ? error
        : new UploadError("internal", "This page has failed", { resumable: true, cause: error });
    this.error = failure;
    if (!failure.resumable) void this.#forget();
    this.#enter("failed");
    this.emit("failed", { upload: this, error: failure });
    return failure;
  }

  async #giveUp(): Promise<void> {
    this.#enter("cancelled");
    const session = this.#record?.session;
    await this.#forget();
    if (session) await cancelSession(session, this.#access, this.#send);
  }
}

/** Tells the server that a session is given up. If it does not hear, the session expires. */
export async function cancelSession(session: string, access: Access, send: Send): Promise<void> {
  const request: Request = { method: "DELETE", url: session, headers: {}, body: null };
  const options = { signal: AbortSignal.timeout(FAREWELL), credentials: access.credentials };
  try {
    await access.authorize(request);
    await send(request, options);
  } catch (error) {
    const expected = [Broken, DOMException, UploadError].some((kind) => error instanceof kind);
    if (!expected) throw error;
  }
}

function resolved(location: string, base: URL): URL | null {
  return URL.canParse(location, base) ? new URL(location, base) : null;
}

function fileChanged(cause?: unknown): UploadError {
  const text = "The file was changed, moved or deleted while it was uploaded";
  return new UploadError("file-changed", text, { cause });
}

function differs(how: string): UploadError {
  return new UploadError("media-differs", `The server states ${how}: the upload is damaged`);
}

/** `uploadType` replaces what the URL says of it; the rest stays as it is written. */
function startUrl(url: URL): string {
  const start = new URL(url);
  const kept = start.search.slice(1).split("&").filter((pair) => {
    const name = pair.replace(/=.*/, "");
    return pair !== "" && name !== "uploadType" && name !== "upload_protocol";
  });
  start.search = [...kept, "uploadType=resumable"].join("&");
  start.hash = "";
  return start.href;
}

/** Runs `work` unless an upload with the same key runs here or in another tab. */
async function locked<T>(key: string, work: () => Promise<T>): Promise<T> {
  const busy = new UploadError("busy", "This file is being uploaded already", { resumable: true });
  if (running.has(key)) throw busy;
  running.add(key);
  try {
    // Missing on a page without https.
    const locks = globalThis.navigator?.locks as LockManager | undefined;
    if (!locks) return await work();
    return await locks.request(`windlass-upload ${key}`, { ifAvailable: true }, (lock) => {
      if (!lock) throw busy;
      return work();
    });
  } finally {
    running.delete(key);
  }
}

/** Waits; a network that comes back ends the wait. */
function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (settle: () => void) => () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
      globalThis.removeEventListener?.("online", online);
      settle();
    };
    const online = end(resolve);
    const abort = end(() => reject(signal.reason));
    const timer = setTimeout(online, milliseconds);
    signal.addEventListener("abort", abort);
    globalThis.addEventListener?.("online", online);
    if (signal.aborted) abort();
  });
}
