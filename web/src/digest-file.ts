import { crc32c } from "./crc32c.js";

/** Bytes that are read at once. */
const PIECE = 1024 * 1024;

/** The CRC32C of a whole file; null if `cancelled` is true before its end. */
export async function crc32cOf(file: Blob, cancelled: () => boolean): Promise<number | null> {
  let crc = 0;
  for (let at = 0; at < file.size; at += PIECE) {
    const bytes = await file.slice(at, at + PIECE).arrayBuffer();
    if (cancelled()) return null;
    crc = crc32c(new Uint8Array(bytes), crc);
  }
  return crc;
}
