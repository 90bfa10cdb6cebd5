/** Calls back when it was not set again in time. */
export declare class Watchdog {
    #private;
    hadBytes: boolean;
    constructor(bark: () => void);
    /** Bytes have arrived. */
    hear(ms: number): void;
    /** Whether bytes have come, but none for longer than this. */
    isOverdue(ms: number): boolean;
    set(ms: number): void;
    stop(): void;
}
/** Renews the token of a stream before it expires. */
export declare class Renewal {
    #private;
    plan(token: string | undefined, renew: (old: string | undefined) => Promise<string | undefined>, failures?: number): void;
    stop(): void;
}
