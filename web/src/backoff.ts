// The waits between attempts: min(2^n, longest) units plus 0 to 1,000 thousandths of a unit, for
// n = 0, 1, 2, ... since there was progress.

/** How long the client waits after failures, and how often. */
export interface RetryPolicy {
  /** The first wait in milliseconds, which each further wait doubles. Default: 1,000. */
  unit: number;
  /** Waits without progress before the upload fails. Default: 5. */
  waits: number;
  /** Upper bound of a wait in milliseconds, without its random part. Default: 32,000. */
  longest: number;
  /** Attempts after replies that do not belong to the protocol. Default: 10. */
  otherTries: number;
  /** New sessions after lost ones (404, 410). Default: 3. */
  restarts: number;
  /** The longest `Retry-After` that is waited for, in milliseconds. Default: 600,000. */
  longestRetryAfter: number;
}

export const DEFAULT_RETRY_POLICY: RetryPolicy = {
  unit: 1000,
  waits: 5,
  longest: 32_000,
  otherTries: 10,
  restarts: 3,
  longestRetryAfter: 600_000,
};

/** No scheduled wait is longer, whatever the policy says: Google asks for "under a minute". */
export const MAX_WAIT = 59_000;

/** The wait number `n`, from 0, in milliseconds. `random` is drawn for this wait: 0 up to 1. */
export function wait(policy: RetryPolicy, n: number, random: number): number {
  const doubled = Math.min(policy.unit * 2 ** n, policy.longest);
  const jitter = (policy.unit / 1000) * Math.floor(random * 1001);
  return Math.min(doubled + jitter, MAX_WAIT);
}
