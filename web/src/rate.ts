/** Below this, in milliseconds, a rate would be that of a single event. */
const SHORTEST = 500;

/** Bytes in a second over the last seconds. */
export class Rate {
  readonly #window: number;
  #samples: { at: number; bytes: number }[] = [];

  /** `window` is in milliseconds. */
  constructor(window = 5000) {
    this.#window = window;
  }

  /** At the time `at`, in milliseconds, `bytes` were sent since the beginning. */
  add(at: number, bytes: number): void {
    const last = this.#samples.at(-1);
    // After a failure fewer bytes count as sent.
    if (last && bytes < last.bytes) this.#samples = [];
    if (last && at - last.at < this.#window / 50) return;
    this.#samples.push({ at, bytes });
    while (this.#samples.length > 2 && at - this.#samples[1]!.at > this.#window) {
      this.#samples.shift();
    }
  }

  reset(): void {
    this.#samples = [];
  }

  /** Bytes in a second; null while nothing can be said. */
  get value(): number | null {
    const first = this.#samples[0];
    const last = this.#samples.at(-1);
    if (!first || !last || last.at - first.at < SHORTEST) return null;
    return ((last.bytes - first.bytes) * 1000) / (last.at - first.at);
  }
}
