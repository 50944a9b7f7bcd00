// The sizes of data requests: all that is left in one request, until the network or something in
// front of the server shows that it bears less.

/** The protocol takes chunks of a multiple of this, except the last one. */
export const GRANULARITY = 256 * 1024;

/** Upper bound of adaptive chunks. Above it the rest goes in one request again. */
const MAX_CHUNK = 256 * GRANULARITY;

/** Consecutive breaks after which chunks are used. */
const BREAKS_BEFORE_CHUNKS = 2;

/** The bytes from `first` to before `end` of the media. */
export interface Chunk {
  first: number;
  end: number;
}

export class ChunkSizer {
  /** The largest size of a request. */
  limit: number;
  readonly #fixed: boolean;
  #breaks = 0;
  /** What the server, or something in front of it, was seen to take of a request at most. */
  #most = Infinity;

  /** `fixed` is the size of all chunks, a multiple of 256 KiB; else sizes adapt. */
  constructor(fixed?: number) {
    if (fixed !== undefined && !(fixed > 0 && fixed % GRANULARITY === 0)) {
      throw new RangeError(`a chunk size is a multiple of ${GRANULARITY} bytes: ${fixed} is not`);
    }
    this.#fixed = fixed !== undefined;
    this.limit = fixed ?? Infinity;
  }

  /** Adapts to a broken request, after which `committed` bytes are committed. */
  broke(chunk: Chunk, committed: number): void {
    this.#breaks += 1;
    if (this.#fixed || this.#breaks < BREAKS_BEFORE_CHUNKS) return;
    // Half of the bytes that arrived are likely to arrive in one request. If none did, the network
    // may be that bad, or the server may keep only whole requests.
    const cameThrough = committed - chunk.first;
    const bearable =
      cameThrough > 0 ? cameThrough / 2 : Math.min(chunk.end - chunk.first, MAX_CHUNK) / 4;
    this.limit = Math.min(wholeMultiple(bearable), this.#most);
  }

  /** Adapts to a reply that a request is too large. False if nothing smaller can be tried. */
  tooLarge(chunk: Chunk): boolean {
    const size = chunk.end - chunk.first;
    if (this.#fixed || size <= GRANULARITY) return false;
    this.limit = this.#most = size > MAX_CHUNK ? MAX_CHUNK : wholeMultiple(size / 4);
    return true;
  }

  /** Adapts to an answered request, after which `committed` bytes are committed. */
  completed(chunk: Chunk, committed: number): void {
    this.#breaks = 0;
    if (this.#fixed) return;
    if (committed < chunk.end) {
      // The server keeps a part of each request, so larger requests would be sent in vain.
      this.#most = Math.min(wholeMultiple(committed - chunk.first), this.#most);
      this.limit = this.#most;
      return;
    }
    const doubled = Math.min(this.limit * 2, this.#most);
    this.limit = doubled > MAX_CHUNK ? Infinity : doubled;
  }
}

function wholeMultiple(bytes: number): number {
  return Math.max(GRANULARITY, Math.floor(bytes / GRANULARITY) * GRANULARITY);
}
