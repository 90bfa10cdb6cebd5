import { type Http, type Request } from './http.js';
import { ProblemError } from './problem.js';
import type { Frame } from './state.js';
import { Watchdog } from './timers.js';
/** Times in milliseconds. */
export interface Timing {
    /** The server sends something at least this often. */
    heartbeat: number;
    /** A stream whose first bytes take longer is silent. */
    silence: number;
    /** After so long the client tries a stream again instead of long polls. */
    polling: number;
    /** A token source that takes longer has failed. */
    token: number;
    /** A call whose answer takes longer has failed. */
    call: number;
}
export declare const TIMING: Timing;
/** `waiting`: for the next attempt, after a failure. `idle`: there are no subscriptions. */
export type Status = 'idle' | 'connecting' | 'live' | 'polling' | 'waiting';
/** A subscription as `POST /live` takes it. */
export interface Subscription {
    key: string;
    query: string;
    args: Record<string, unknown>;
    have?: string;
    rows: boolean;
}
/** What uses a connection. */
export interface Subscriber {
    /**
     * All present subscriptions, with what is held of them. A poll is not answered for a value that stays the same: where
     * an answer is needed, it asks for the value anew.
     */
    subscriptions(isPoll?: boolean): Subscription[];
    /** These are about to be sent: the next frame of each answers what it says is held. */
    sending(subscriptions: Subscription[]): void;
    frame(event: string, version: string | undefined, frame: Frame): void;
    /** The server refused the subscriptions with these keys, which are left out until `sync`. */
    refused(error: ProblemError, keys: string[]): void;
    /** A request failed, of the stream or of the subscriptions with these keys alone. A retry follows. */
    failed(error: ProblemError, keys?: string[]): void;
    status(status: Status): void;
}
export declare class Connection {
    #private;
    constructor(http: Http, subscriber: Subscriber, timing: Timing);
    /** The subscriptions have changed. Changes of one turn of the event loop are sent together. */
    sync(): void;
    /** The network or the user is back: ends a pause between two attempts, and a connection that is overdue. */
    hurry(): void;
    close(): void;
}
/** The watchdog of a request. The time of the token source, which has a limit of its own, does not count as silence. */
export declare function watchedBy(watchdog: Watchdog, silence: number): Pick<Request, 'onSend' | 'onRenew'>;
