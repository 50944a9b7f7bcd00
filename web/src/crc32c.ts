// CRC32C (Castagnoli), eight bytes at a time.

const POLYNOMIAL = 0x82f63b78;

/** Table `k` advances a byte over `k` further bytes of zeros. */
const TABLES: readonly Uint32Array[] = tables();

function tables(): Uint32Array[] {
  const all = Array.from({ length: 8 }, () => new Uint32Array(256));
  const first = all[0]!;
  for (let byte = 0; byte < 256; byte++) {
    let crc = byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1;
    first[byte] = crc;
  }
  for (let k = 1; k < 8; k++) {
    for (let byte = 0; byte < 256; byte++) {
      const before = all[k - 1]![byte]!;
      all[k]![byte] = (before >>> 8) ^ first[before & 0xff]!;
    }
  }
  return all;
}

/** The CRC32C of the bytes that `crc` stands for, followed by `bytes`. Of no bytes it is 0. */
export function crc32c(bytes: Uint8Array, crc = 0): number {
  const [t0, t1, t2, t3, t4, t5, t6, t7] = TABLES as [
    Uint32Array, Uint32Array, Uint32Array, Uint32Array,
    Uint32Array, Uint32Array, Uint32Array, Uint32Array,
  ];
  let state = ~crc;
  let at = 0;
  for (const end = bytes.length - 7; at < end; at += 8) {
    state ^=
      bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
    state =
      t7[state & 0xff]! ^ t6[(state >>> 8) & 0xff]! ^
      t5[(state >>> 16) & 0xff]! ^ t4[state >>> 24]! ^
      t3[bytes[at + 4]!]! ^ t2[bytes[at + 5]!]! ^ t1[bytes[at + 6]!]! ^ t0[bytes[at + 7]!]!;
  }
  for (; at < bytes.length; at++) state = (state >>> 8) ^ t0[(state ^ bytes[at]!) & 0xff]!;
  return ~state >>> 0;
}

/** As resources state it: base64 of the four bytes, the highest first. */
export function toBase64(crc: number): string {
  return btoa(String.fromCharCode(crc >>> 24, (crc >>> 16) & 255, (crc >>> 8) & 255, crc & 255));
}
