// Files and folders from what a browser hands out: forms, drops, pastes and pickers.

import { sourceOf } from "./source.js";
import type { Source } from "./source.js";

/** So many files are taken of one folder, drop or paste. */
export const MOST_FILES = 10_000;

/** Thrown when a folder, a drop or a paste has more files than are taken at once. */
export class TooManyFiles extends Error {
  override readonly name = "TooManyFiles";
  readonly most: number;

  constructor(most: number) {
    super(`more than ${most} files were chosen at once`);
    this.most = most;
  }
}

/** The files of a form's input, also of one with `webkitdirectory`. */
export function fromInput(input: HTMLInputElement, most = MOST_FILES): Source[] {
  const files = [...(input.files ?? [])];
  if (files.length > most) throw new TooManyFiles(most);
  return files.map(sourceOf);
}

/**
 * The files of a drop or a paste, with those of folders. Call it before the event has ended: what
 * was dropped cannot be read afterwards.
 */
export async function fromTransfer(data: DataTransfer, most = MOST_FILES): Promise<Source[]> {
  const found = new Found(most);
  // All are asked for before the first is waited for.
  const items = [...data.items].filter((item) => item.kind === "file").map(opened);
  for (const item of items) await found.addItem(await item);
  return found.sources;
}

/** The files of a folder, from `showDirectoryPicker`. Their handles outlive the page. */
export async function fromDirectory(
  folder: FileSystemDirectoryHandle,
  most = MOST_FILES,
): Promise<Source[]> {
  const found = new Found(most);
  await found.addHandle(folder, "");
  return found.sources;
}

/** A file, from `showOpenFilePicker`. */
export async function fromHandle(handle: FileSystemFileHandle): Promise<Source> {
  const file = await handle.getFile();
  return { file, path: file.name, handle };
}

/** The forms in which a browser shows what was dropped. */
type Item = FileSystemHandle | FileSystemEntry | File | null;

/** What Chromium has beside the standard's members. */
interface WithHandle {
  getAsFileSystemHandle?: () => Promise<FileSystemHandle | null>;
}

function opened(item: DataTransferItem): Promise<Item> {
  const entry = item.webkitGetAsEntry?.() ?? null;
  const file = item.getAsFile();
  const handle = (item as WithHandle).getAsFileSystemHandle?.() ?? Promise.resolve(null);
  // What was pasted has no handle, and an insecure page gets none.
  return handle.catch(() => null).then((found) => found ?? entry ?? file);
}

class Found {
  readonly sources: Source[] = [];
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  async addItem(item: Item): Promise<void> {
    if (item === null) return;
    if (item instanceof File) this.#add(sourceOf(item));
    else if ("kind" in item) await this.addHandle(item, "");
    else await this.#addEntry(item);
  }

  async addHandle(handle: FileSystemHandle, folder: string): Promise<void> {
    const path = folder + handle.name;
    if (handle.kind === "file") {
      const fileHandle = handle as FileSystemFileHandle;
      this.#add({ file: await fileHandle.getFile(), path, handle: fileHandle });
      return;
    }
    const entries = (handle as FileSystemDirectoryHandle).values();
    for await (const entry of entries) await this.addHandle(entry, `${path}/`);
  }

  async #addEntry(entry: FileSystemEntry): Promise<void> {
    if (entry.isFile) {
      const file = await new Promise<File>((resolve, reject) =>
        (entry as FileSystemFileEntry).file(resolve, reject),
      );
      this.#add({ file, path: entry.fullPath.replace(/^\//, "") });
      return;
    }
    const reader = (entry as FileSystemDirectoryEntry).createReader();
    // A reader gives some entries at a time, and none at the end.
    for (;;) {
      const entries = await new Promise<FileSystemEntry[]>((resolve, reject) =>
        reader.readEntries(resolve, reject),
      );
      if (entries.length === 0) return;
      for (const inner of entries) await this.#addEntry(inner);
    }
  }

  #add(source: Source): void {
    if (this.sources.length >= this.#most) throw new TooManyFiles(this.#most);
    this.sources.push(source);
  }
}
