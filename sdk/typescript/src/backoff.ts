// Pauses between attempts: doubled from attempt to attempt, and jittered so that clients do not come back together.

const FIRST_MS = 250;
const LONGEST_MS = 30_000;
/** A server may ask for a longer pause, up to this. Timers of browsers take 24 days at most. */
const ASKED_MAX_MS = 300_000;

/** So many attempts at a stream are so far apart at most: what was away for ten seconds is seen within a second. */
const QUICK_ATTEMPTS = 15;
const QUICK_MS = 900;

/** A pause in milliseconds before the attempt number `attempt` (0 is the first). */
export function pause(attempt: number, atLeastMs = 0, random: () => number = Math.random): number {
  return jittered(Math.max(Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(attempt, 16)), 0), atLeastMs, random);
}

/** The pause before a stream is opened again, after `attempt` that failed: a page without one shows what has passed. */
export function pauseOfStream(attempt: number, atLeastMs = 0, random: () => number = Math.random): number {
  if (attempt < 2) return pause(attempt, atLeastMs, random);
  const later = attempt - QUICK_ATTEMPTS;
  return later < 2 ? jittered(QUICK_MS, atLeastMs, random) : pause(later, atLeastMs, random);
}

function jittered(limitMs: number, atLeastMs: number, random: () => number): number {
  return Math.min(atLeastMs, ASKED_MAX_MS) + limitMs * (0.5 + 0.5 * random());
}

/** A pause that a `bye` asks for, spread over its second half. */
export function pauseAfterBye(retryMs: number, random: () => number = Math.random): number {
  return Math.min(retryMs, ASKED_MAX_MS) * (0.5 + 0.5 * random());
}

/** Waits; resolves early with `false` when the signal aborts. */
export function sleep(ms: number, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve(false);
    const stop = () => {
      clearTimeout(timer);
      resolve(false);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop);
      resolve(true);
    }, ms);
    signal.addEventListener('abort', stop, { once: true });
  });
}
