/** A pause in milliseconds before the attempt number `attempt` (0 is the first). */
export declare function pause(attempt: number, atLeastMs?: number, random?: () => number): number;
/** The pause before a stream is opened again, after `attempt` that failed: a page without one shows what has passed. */
export declare function pauseOfStream(attempt: number, atLeastMs?: number, random?: () => number): number;
/** A pause that a `bye` asks for, spread over its second half. */
export declare function pauseAfterBye(retryMs: number, random?: () => number): number;
/** Waits; resolves early with `false` when the signal aborts. */
export declare function sleep(ms: number, signal: AbortSignal): Promise<boolean>;
