// The timers of a connection: for bytes that do not come, and for tokens that expire.

import { pause } from './backoff.js';
import { expiry } from './tokens.js';

/** A token is renewed so long before it expires, or after four fifths of its time if that is later. */
const RENEW_BEFORE_MS = 30_000;
const TIMER_MAX_MS = 2 ** 31 - 1;

/** Calls back when it was not set again in time. */
export class Watchdog {
  readonly #bark: () => void;
  #timer: ReturnType<typeof setTimeout> | undefined;
  hadBytes = false;
  /** By the clock of the device, which goes on while it sleeps. */
  #heard = Date.now();

  constructor(bark: () => void) {
    this.#bark = bark;
  }

  /** Bytes have arrived. */
  hear(ms: number): void {
    this.hadBytes = true;
    this.#heard = Date.now();
    this.set(ms);
  }

  /** Whether bytes have come, but none for longer than this. */
  isOverdue(ms: number): boolean {
    return this.hadBytes && Date.now() - this.#heard > ms;
  }

  set(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#bark, ms);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}

/** Renews the token of a stream before it expires. */
export class Renewal {
  #timer: ReturnType<typeof setTimeout> | undefined;
  #stopped = false;

  plan(token: string | undefined, renew: (old: string | undefined) => Promise<string | undefined>, failures = 0): void {
    const expires = expiry(token);
    if (expires === undefined || this.#stopped) return;
    const left = expires - Date.now();
    // A token that has expired by this clock: the server's clock decides, and ends the stream.
    if (left <= 0) return;
    const wait = failures > 0 ? pause(failures) : Math.max(left - RENEW_BEFORE_MS, left * 0.8);
    this.#timer = setTimeout(async () => {
      try {
        const next = await renew(token);
        // A source may renew only what is about to expire.
        this.plan(next, renew, next === token ? failures + 1 : 0);
      } catch {
        this.plan(token, renew, failures + 1);
      }
    }, Math.min(wait, TIMER_MAX_MS));
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }
}
