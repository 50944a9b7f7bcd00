// Files to upload, and how one is recognised after a reload.

import { crc32c, toBase64 } from "./crc32c.js";

/** A file with its place in a folder, and a handle by which a later page can open it again. */
export interface Source {
  file: File;
  /** Its path in the folder that was chosen, with `/`; the file's name if there was none. */
  path: string;
  handle?: FileSystemFileHandle | undefined;
}

/** The source of a file that was chosen in a form. */
export function sourceOf(file: File | Source): Source {
  if (!(file instanceof File)) return file;
  return { file, path: file.webkitRelativePath || file.name };
}

/** Bytes at either end of a file by which it is recognised. */
const ENDS = 64 * 1024;

/** The CRC32C of the first and the last 64 KiB. With size and time it identifies a file. */
export async function ends(file: Blob): Promise<string> {
  const last = Math.max(ENDS, file.size - ENDS);
  const parts = new Blob([file.slice(0, ENDS), file.slice(last)]);
  return toBase64(crc32c(new Uint8Array(await parts.arrayBuffer())));
}

/** Whether the file's bytes can still be read. A browser refuses those of a file that changed. */
export async function isReadable(file: Blob): Promise<boolean> {
  try {
    await file.slice(Math.max(0, file.size - 1)).arrayBuffer();
    return true;
  } catch (error) {
    if (error instanceof DOMException) return false;
    throw error;
  }
}
