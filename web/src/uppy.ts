// An uploader for Uppy: `new Uppy().use(Windlass, { url })`.

import { BasePlugin } from "@uppy/core";
import type { Body, DefinePluginOpts, Meta, PluginOpts, Uppy, UppyFile } from "@uppy/core";

import type { UploadError } from "./errors.js";
import type { Resource } from "./reply.js";
import type { Source } from "./source.js";
import type { Upload } from "./upload.js";
import { Uploader } from "./uploader.js";
import type { UploaderOptions } from "./uploader.js";

type Passed = Omit<UploaderOptions, "url" | "metadata" | "accept" | "maxSize">;

/** Where Uppy's files go, and how. What is accepted is said by Uppy's own `restrictions`. */
export interface WindlassOptions<M extends Meta, B extends Body> extends PluginOpts, Passed {
  /** The upload URL or a signed link, or a function that returns that of a file. */
  url: string | ((file: UppyFile<M, B>) => string);
  /** The metadata of each resource, or a function that returns that of a file. Default: none. */
  metadata?: Resource | ((file: UppyFile<M, B>) => Resource | undefined);
  /** Where a finished file can be had: Uppy's `uploadURL`. Default: nowhere. */
  linkTo?: (resource: Resource) => string | undefined;
}

declare module "@uppy/core" {
  interface PluginTypeRegistry<M extends Meta, B extends Body> {
    Windlass: Windlass<M, B>;
  }
}

/** The plugin. Pauses, resumes and retries are Uppy's own. */
export class Windlass<M extends Meta, B extends Body> extends BasePlugin<
  DefinePluginOpts<WindlassOptions<M, B>, never>,
  M,
  B
> {
  readonly #uploader: Uploader;
  readonly #files = new WeakMap<Source, UppyFile<M, B>>();
  /** The upload of each file of Uppy's, and what ends when it does. */
  readonly #uploads = new Map<string, { upload: Upload; ended: () => void }>();

  constructor(uppy: Uppy<M, B>, opts: WindlassOptions<M, B>) {
    super(uppy, opts);
    this.type = "uploader";
    this.id = opts.id ?? "Windlass";
    const { url, metadata, linkTo: _, id: __, locale: ___, ...passed } = opts;
    const fileOf = (source: Source) => this.#files.get(source)!;
    this.#uploader = new Uploader({
      ...passed,
      url: typeof url === "function" ? (source) => url(fileOf(source)) : url,
      metadata: typeof metadata === "function" ? (source) => metadata(fileOf(source)) : metadata,
    });
  }

  override install(): void {
    this.#resumable(true);
    this.uppy.addUploader(this.#upload);
    for (const [event, listener] of this.#listeners) this.uppy.on(event, listener);
  }

  override uninstall(): void {
    this.#resumable(false);
    this.uppy.removeUploader(this.#upload);
    for (const [event, listener] of this.#listeners) this.uppy.off(event, listener);
    // A later page may continue what is not cancelled.
    this.#uploader.pause();
  }

  #resumable(resumableUploads: boolean): void {
    const { capabilities } = this.uppy.getState();
    this.uppy.setState({ capabilities: { ...capabilities, resumableUploads } });
  }

  readonly #listeners = [
    ["pause-all", () => this.#uploader.pause()],
    ["resume-all", () => this.#uploader.resume()],
    ["cancel-all", () => this.#uploader.cancel()],
    ["upload-pause", (file?: UppyFile<M, B>, isPaused?: boolean) => {
      const upload = file && this.#uploads.get(file.id)?.upload;
      if (isPaused) upload?.pause();
      else upload?.resume();
    }],
    ["file-removed", (file: UppyFile<M, B>) => {
      const one = this.#uploads.get(file.id);
      if (one) this.#uploader.remove(one.upload);
      this.#uploads.delete(file.id);
      one?.ended();
    }],
  ] as const;

  readonly #upload = async (ids: string[]): Promise<void> => {
    const files = this.uppy.getFilesByIds(ids).filter(({ progress }) => !progress.uploadComplete);
    this.uppy.emit("upload-start", files);
    await Promise.all(files.map((file) => this.#run(file)));
  };

  /** Resolves at the end of the upload; Uppy hears by an event whether that is a failure. */
  #run(file: UppyFile<M, B>): Promise<void> {
    if (file.isRemote || !file.data) {
      const error = new TypeError(`${file.name} is not a file of this device`);
      this.uppy.emit("upload-error", file, error);
      return Promise.resolve();
    }
    return new Promise((ended) => {
      const earlier = this.#uploads.get(file.id)?.upload;
      if (earlier?.state === "failed") {
        this.#uploads.set(file.id, { upload: earlier, ended });
        this.#uploader.retry(earlier);
        return;
      }
      const { name, relativePath } = file.meta;
      const source = { file: asFile(file.data!, file), path: relativePath || name };
      this.#files.set(source, file);
      const [upload] = this.#uploader.add([source]);
      this.#uploads.set(file.id, { upload: upload!, ended });
      this.#follow(file.id, upload!);
    });
  }

  #follow(id: string, upload: Upload): void {
    const file = () => this.uppy.getFile(id) as UppyFile<M, B> | undefined;
    const end = () => this.#uploads.get(id)?.ended();
    const uploadStarted = Date.now();
    upload.on("progress", ({ progress }) => {
      const { sent: bytesUploaded, total: bytesTotal } = progress;
      this.uppy.emit("upload-progress", file(), { uploadStarted, bytesUploaded, bytesTotal });
    });
    upload.on("state", ({ state }) => {
      // Uppy may have paused it while it was waiting for its turn.
      if (state === "starting" && file()?.isPaused) upload.pause();
      if (state === "cancelled") end();
    });
    upload.on("finished", ({ resource }) => {
      const uploadURL = resource ? this.opts.linkTo?.(resource) : undefined;
      const body = (resource ?? {}) as B;
      const response = { status: 200, body, ...(uploadURL === undefined ? {} : { uploadURL }) };
      this.uppy.emit("upload-success", file(), response);
      end();
      this.#uploads.delete(id);
      this.#uploader.remove(upload);
    });
    upload.on("failed", ({ error }) => {
      this.uppy.emit("upload-error", file(), error, responseOf(error));
      end();
    });
  }
}

function responseOf({ status }: UploadError): { status: number } | undefined {
  return status === undefined ? undefined : { status };
}

/** A blob of Uppy's as a file that is the same after a reload. */
function asFile(data: Blob, { name, type }: { name: string; type: string }): File {
  return data instanceof File ? data : new File([data], name, { type, lastModified: 0 });
}
