// `<windlass-upload>`: a place to drop files, and a list of their uploads.

import { TooManyFiles, fromHandle, fromInput, fromTransfer } from "./files.js";
import type { Resource } from "./reply.js";
import { Row, button, child, isolated } from "./row.js";
import type { RowActions } from "./row.js";
import { STYLE } from "./style.js";
import type { Source } from "./source.js";
import { ENGLISH, shownName } from "./texts.js";
import type { Texts } from "./texts.js";
import type { UploadError } from "./errors.js";
import type { Upload } from "./upload.js";
import { Uploader } from "./uploader.js";
import type { Unfinished, UploaderOptions } from "./uploader.js";

export * from "./index.js";
export { ENGLISH } from "./texts.js";
export type { Texts } from "./texts.js";

/** The events of the component. They bubble, also out of other components. */
export interface WindlassUploadEvents {
  "upload-added": CustomEvent<{ upload: Upload }>;
  "upload-finished": CustomEvent<{ upload: Upload; resource: Resource | null }>;
  "upload-failed": CustomEvent<{ upload: Upload; error: UploadError }>;
  /** Nothing runs any more. */
  "upload-idle": CustomEvent<{ uploads: readonly Upload[] }>;
}

declare global {
  interface HTMLElementTagNameMap {
    "windlass-upload": WindlassUploadElement;
  }
  interface GlobalEventHandlersEventMap extends WindlassUploadEvents {}
}

/** So many uploads have a line of their own. */
const MOST_ROWS = 500;

/** So many unfinished uploads of earlier pages are shown. */
const MOST_UNFINISHED = 20;

const ATTRIBUTES = [
  "url", "method", "accept", "max-size", "concurrency", "chunk-size", "metadata", "name-field",
] as const;

/** Chromium's picker, whose files a later page can open again. */
interface WithPicker {
  showOpenFilePicker?: (options: { multiple: boolean }) => Promise<FileSystemFileHandle[]>;
}

/**
 * The component. Attributes: `url` (the upload URL or a signed link; `{name}` stands for the file's
 * path), `method`, `accept`, `max-size` and `chunk-size` (bytes), `concurrency`, `metadata` (JSON),
 * `name-field` (the field of the metadata that gets the file's path). What is no text is set by
 * `options`, which wins over attributes. A change holds for files that are added afterwards.
 */
export class WindlassUploadElement extends HTMLElement {
  static readonly observedAttributes = ATTRIBUTES;

  /** Where a finished file can be had: its name becomes a link. */
  linkTo: (resource: Resource) => string | null = () => null;

  #options: Partial<UploaderOptions> = {};
  #texts: Texts = ENGLISH;
  #uploader: Uploader | null = null;
  /** Those of earlier settings, too, as long as their uploads are in the list. */
  readonly #uploaders = new Set<Uploader>();
  readonly #rows = new Map<Upload, Row>();
  readonly #stale = new Set<Upload>();
  #frame = 0;
  readonly #view = new View();
  /** The unfinished upload whose file is being chosen. */
  #chosenFor: Unfinished | null = null;

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    const style = document.createElement("style");
    style.textContent = STYLE;
    root.append(style, ...this.#view.parts);
    this.#listen();
  }

  get options(): Partial<UploaderOptions> {
    return this.#options;
  }

  set options(options: Partial<UploaderOptions>) {
    this.#options = options;
    this.#reset();
  }

  /** The component's words. Default: English. */
  get texts(): Texts {
    return this.#texts;
  }

  set texts(texts: Texts) {
    this.#texts = texts;
    this.#view.label(texts);
    for (const upload of [...this.#rows.keys()]) this.#showRow(upload);
    this.#changed();
  }

  /** The uploads in the list. */
  get uploads(): readonly Upload[] {
    return [...this.#uploaders].flatMap(({ uploads }) => uploads);
  }

  /** Uploads files as if they had been dropped. */
  add(files: Iterable<File | Source>): Upload[] {
    this.#view.say("");
    return this.#current().add(files);
  }

  connectedCallback(): void {
    this.#view.label(this.#texts);
    document.addEventListener("paste", this.#paste);
    void this.#showUnfinished();
  }

  disconnectedCallback(): void {
    document.removeEventListener("paste", this.#paste);
  }

  attributeChangedCallback(): void {
    this.#reset();
  }

  #reset(): void {
    this.#uploader = null;
    this.#view.files.accept = this.#options.accept ?? this.getAttribute("accept") ?? "";
    if (this.isConnected) void this.#showUnfinished();
  }

  #current(): Uploader {
    if (!this.#uploader) {
      this.#uploader = new Uploader(this.#settings());
      this.#follow(this.#uploader);
      for (const old of this.#uploaders) {
        if (old.uploads.length === 0) this.#uploaders.delete(old);
      }
      this.#uploaders.add(this.#uploader);
    }
    return this.#uploader;
  }

  #settings(): UploaderOptions {
    const text = (name: (typeof ATTRIBUTES)[number]) => this.getAttribute(name) ?? undefined;
    const url = text("url");
    if (!url && !this.#options.url) throw new TypeError("windlass-upload has no url");
    const metadata = text("metadata");
    const field = text("name-field");
    const fixed = metadata === undefined ? undefined : (JSON.parse(metadata) as Resource);
    return {
      url: ({ path }) => (url ?? "").replaceAll("{name}", encodeURIComponent(path)),
      method: methodOf(text("method")),
      accept: text("accept"),
      maxSize: numberOf(text("max-size")),
      concurrency: numberOf(text("concurrency")),
      chunkSize: numberOf(text("chunk-size")),
      metadata: field ? ({ path }) => ({ ...fixed, [field]: path }) : fixed,
      ...this.#options,
    };
  }

  #follow(uploader: Uploader): void {
    uploader.on("added", ({ upload }) => {
      if (this.#rows.size < MOST_ROWS) this.#showRow(upload);
      this.#changed();
      this.#tell("upload-added", { upload });
    });
    uploader.on("state", ({ upload }) => this.#changed(upload));
    uploader.on("progress", ({ upload }) => this.#changed(upload));
    uploader.on("removed", ({ upload }) => this.#dropRow(upload));
    uploader.on("rejected", ({ source, why }) => {
      this.#view.say(this.#texts.rejected(shownName(source.path), why));
    });
    uploader.on("finished", ({ upload, resource }) => {
      this.#hear(this.#texts.announceFinished(shownName(upload.source.path)));
      this.#tell("upload-finished", { upload, resource });
    });
    uploader.on("failed", ({ upload, error }) => {
      this.#hear(this.#texts.announceFailed(shownName(upload.source.path), error.message));
      this.#tell("upload-failed", { upload, error });
    });
    uploader.on("idle", ({ uploads }) => {
      const { finished, failed } = counts(this.uploads);
      this.#view.heard.textContent = this.#texts.announceAll(finished, failed);
      void this.#showUnfinished();
      this.#tell("upload-idle", { uploads });
    });
  }

  /** Of many files only the end of all is announced. */
  #hear(text: string): void {
    if (this.uploads.length <= 3) this.#view.heard.textContent = text;
  }

  #tell<Name extends keyof WindlassUploadEvents>(
    name: Name,
    detail: WindlassUploadEvents[Name]["detail"],
  ): void {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
  }

  readonly #actions: RowActions = {
    pause: (upload) => upload.pause(),
    resume: (upload) => upload.resume(),
    retry: (upload) => this.#ownerOf(upload)?.retry(upload),
    remove: (upload) => {
      const rows = [...this.#rows.keys()];
      const next = rows[rows.indexOf(upload) + 1] ?? rows[rows.indexOf(upload) - 1];
      this.#ownerOf(upload)?.remove(upload);
      const row = next && this.#rows.get(next);
      if (row) row.focus();
      else this.#view.chooseFiles.focus();
    },
    link: (resource) => this.linkTo(resource),
  };

  #ownerOf(upload: Upload): Uploader | undefined {
    return [...this.#uploaders].find(({ uploads }) => uploads.includes(upload));
  }

  #showRow(upload: Upload): void {
    const row = new Row(upload, this.#texts, this.#actions);
    const old = this.#rows.get(upload)?.element;
    if (old) old.replaceWith(row.element);
    else this.#view.list.append(row.element);
    this.#rows.set(upload, row);
  }

  #dropRow(upload: Upload): void {
    this.#rows.get(upload)?.element.remove();
    this.#rows.delete(upload);
    this.#changed();
  }

  /** Shows changes once a frame. */
  #changed(upload?: Upload): void {
    if (upload) this.#stale.add(upload);
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      for (const stale of this.#stale) this.#updateRow(stale);
      this.#stale.clear();
      this.#summarize();
    });
  }

  #updateRow(upload: Upload): void {
    if (upload.state === "cancelled") {
      this.#ownerOf(upload)?.remove(upload);
      return;
    }
    const row = this.#rows.get(upload);
    if (row) return row.update();
    if (upload.state === "ready" || !this.#ownerOf(upload)) return;
    // One that has begun gets the line of the first that is finished.
    const finished = [...this.#rows.keys()].find(({ state }) => state === "finished");
    if (this.#rows.size >= MOST_ROWS && finished) this.#dropRow(finished);
    if (this.#rows.size < MOST_ROWS) this.#showRow(upload);
  }

  #summarize(): void {
    const all = this.uploads;
    const { finished, failed } = counts(all);
    const paused = [...this.#uploaders].some(({ isPaused }) => isPaused);
    this.#view.all.hidden = all.length < 2 && !paused;
    this.#view.endAll.hidden = finished + failed === all.length;
    this.#view.pauseAll.hidden = finished + failed === all.length && !paused;
    this.#view.pauseAll.textContent = paused ? this.#texts.resumeAll : this.#texts.pauseAll;
    const progress = { sent: 0, committed: 0, total: 0, rate: 0, remaining: 0 };
    for (const uploader of this.#uploaders) {
      const part = uploader.progress;
      progress.sent += part.sent;
      progress.committed += part.committed;
      progress.total += part.total;
      progress.rate += part.rate ?? 0;
    }
    const { sent, total, rate } = progress;
    const measured = rate > 0 ? { rate, remaining: (total - sent) / rate } : NOT_MEASURED;
    const text = this.#texts.summary(finished, failed, all.length, { ...progress, ...measured });
    this.#view.summary.textContent = text;
  }

  #listen(): void {
    const view = this.#view;
    view.chooseFiles.addEventListener("click", () => void this.#choose());
    view.chooseFolder.addEventListener("click", () => view.folder.click());
    for (const input of [view.files, view.folder]) {
      input.addEventListener("change", () => this.#chosen(input));
      input.addEventListener("cancel", () => (this.#chosenFor = null));
    }
    view.pauseAll.addEventListener("click", () => {
      const paused = [...this.#uploaders].some(({ isPaused }) => isPaused);
      for (const uploader of this.#uploaders) paused ? uploader.resume() : uploader.pause();
      this.#changed();
    });
    view.endAll.addEventListener("click", () => {
      for (const uploader of this.#uploaders) uploader.cancel();
      view.chooseFiles.focus();
    });
    this.addEventListener("dragover", (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      view.drop.classList.add("over");
    });
    this.addEventListener("dragleave", () => view.drop.classList.remove("over"));
    this.addEventListener("drop", (event) => {
      event.preventDefault();
      view.drop.classList.remove("over");
      if (event.dataTransfer) void this.#take(fromTransfer(event.dataTransfer));
    });
  }

  readonly #paste = (event: ClipboardEvent): void => {
    const data = event.clipboardData;
    if (!data || data.files.length === 0) return;
    event.preventDefault();
    void this.#take(fromTransfer(data));
  };

  async #choose(): Promise<void> {
    const { files } = this.#view;
    const picker = (window as WithPicker).showOpenFilePicker;
    // The picker knows no list of types as the form's input does.
    if (!picker || files.accept) return files.click();
    let handles: FileSystemFileHandle[];
    try {
      handles = await picker({ multiple: true });
    } catch (error) {
      if (!(error instanceof DOMException)) throw error;
      // Nothing was chosen, or the page stands in a frame that may not ask so.
      if (error.name !== "AbortError") files.click();
      return;
    }
    await this.#take(Promise.all(handles.map(fromHandle)));
  }

  #chosen(input: HTMLInputElement): void {
    const chosenFor = this.#chosenFor;
    this.#chosenFor = null;
    const sources = Promise.resolve().then(() => fromInput(input));
    void this.#take(sources.then((all) => (chosenFor ? this.#again(chosenFor, all) : all)))
      // The same file may be chosen again.
      .then(() => (input.value = ""));
  }

  /** The file of an unfinished upload, in its folder. */
  #again(unfinished: Unfinished, [source]: Source[]): Source[] {
    const { path, size } = unfinished;
    if (source?.file.size === size && path.endsWith(source.file.name)) return [{ ...source, path }];
    this.#view.say(this.#texts.otherFile(shownName(path)));
    return [];
  }

  async #take(found: Promise<Source[]>): Promise<void> {
    this.#view.say("");
    let sources: Source[];
    try {
      sources = await found;
    } catch (error) {
      if (error instanceof TooManyFiles) this.#view.say(this.#texts.tooMany(error.most));
      else if (error instanceof DOMException) this.#view.say(this.#texts.unreadable);
      else throw error;
      return;
    }
    if (sources.length > 0) this.#current().add(sources);
    void this.#showUnfinished();
  }

  async #showUnfinished(): Promise<void> {
    if (!this.hasAttribute("url") && !this.#options.url) return;
    const uploader = this.#current();
    // A journal that cannot be read has nothing to show.
    const all = await uploader.unfinished().catch(() => []);
    if (this.#uploader !== uploader) return;
    const items = all.slice(0, MOST_UNFINISHED).map((one) => this.#unfinishedRow(uploader, one));
    this.#view.unfinished.hidden = items.length === 0;
    this.#view.unfinishedList.replaceChildren(...items);
  }

  #unfinishedRow(uploader: Uploader, unfinished: Unfinished): HTMLElement {
    const texts = this.#texts;
    const name = shownName(unfinished.path);
    const title = child("span", "name");
    title.append(isolated(name));
    const status = child("span", "status");
    status.textContent = texts.left(unfinished);
    const chooseAgain = () => {
      this.#chosenFor = unfinished;
      this.#view.files.click();
    };
    const go = async () => {
      if (!unfinished.hasFile || !(await uploader.continue(unfinished))) chooseAgain();
      await this.#showUnfinished();
    };
    const drop = async () => {
      await uploader.discard(unfinished);
      await this.#showUnfinished();
      this.#view.chooseFiles.focus();
    };
    const label = unfinished.hasFile ? texts.continue : texts.chooseAgain;
    const buttons = [button(label, () => void go()), button(texts.discard, () => void drop())];
    for (const one of buttons) {
      one.setAttribute("aria-label", texts.action(one.textContent ?? "", name));
    }
    const actions = child("div", "actions");
    actions.append(...buttons);
    const item = document.createElement("li");
    item.append(title, status, actions);
    return item;
  }
}

const NOT_MEASURED = { rate: null, remaining: null };

function counts(uploads: readonly Upload[]): { finished: number; failed: number } {
  let [finished, failed] = [0, 0];
  for (const { state } of uploads) {
    if (state === "finished") finished += 1;
    if (state === "failed") failed += 1;
  }
  return { finished, failed };
}

/** An attribute that decides something is not ignored when it is malformed. */
function numberOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d+$/.test(text)) throw new TypeError(`${JSON.stringify(text)} is not a number`);
  return Number(text);
}

function methodOf(text: string | undefined): "POST" | "PUT" | "PATCH" | undefined {
  const method = text?.toUpperCase();
  if (method === undefined) return undefined;
  if (method === "POST" || method === "PUT" || method === "PATCH") return method;
  throw new TypeError(`${JSON.stringify(text)} starts no upload`);
}

/** The parts of the component that are always there. */
class View {
  readonly drop = child("div", "drop");
  readonly chooseFiles = button("", () => {});
  readonly chooseFolder = button("", () => {});
  readonly files = document.createElement("input");
  readonly folder = document.createElement("input");
  readonly message = child("p", "message");
  readonly all = child("div", "all");
  readonly summary = document.createElement("p");
  readonly pauseAll = button("", () => {});
  readonly endAll = button("", () => {});
  readonly list = document.createElement("ul");
  readonly unfinished = document.createElement("section");
  readonly unfinishedList = document.createElement("ul");
  /** Read out by screen readers when it changes. */
  readonly heard = child("div", "heard");
  readonly #invitation = document.createElement("p");
  readonly #heading = document.createElement("h2");

  constructor() {
    this.chooseFiles.className = "main";
    for (const input of [this.files, this.folder]) {
      input.type = "file";
      input.multiple = true;
      input.hidden = true;
    }
    this.folder.webkitdirectory = true;
    this.message.setAttribute("role", "alert");
    this.heard.setAttribute("role", "status");
    this.all.hidden = this.unfinished.hidden = true;
    const buttons = child("div", "buttons");
    buttons.append(this.chooseFiles, this.chooseFolder);
    this.drop.append(this.#invitation, buttons, this.files, this.folder);
    this.all.append(this.summary, this.pauseAll, this.endAll);
    this.unfinished.append(this.#heading, this.unfinishedList);
  }

  get parts(): HTMLElement[] {
    return [this.drop, this.message, this.all, this.list, this.unfinished, this.heard];
  }

  label(texts: Texts): void {
    this.#invitation.textContent = texts.drop;
    this.chooseFiles.textContent = texts.chooseFiles;
    this.chooseFolder.textContent = texts.chooseFolder;
    this.pauseAll.textContent = texts.pauseAll;
    this.endAll.textContent = texts.cancelAll;
    this.#heading.textContent = texts.unfinished;
    this.files.setAttribute("aria-label", texts.chooseFiles);
    this.folder.setAttribute("aria-label", texts.chooseFolder);
  }

  /** An error that is about no upload in the list. */
  say(text: string): void {
    this.message.textContent = text;
    this.message.hidden = text === "";
  }
}

if (!customElements.get("windlass-upload")) {
  customElements.define("windlass-upload", WindlassUploadElement);
}
