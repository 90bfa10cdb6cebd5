import type { Status } from './connection.js';
import type { Sink, Source } from './feed.js';
import { type ProblemError } from './problem.js';
import { type State } from './state.js';
/** What a listener receives with a value. */
export interface Info {
    /** The version of the database state that the value comes from. */
    version: string | undefined;
    /** True while the value contains a change that the server has not confirmed. */
    optimistic: boolean;
}
/** A change of the value that a listener sees, until the server's own value contains it. */
export interface Layer {
    apply(value: unknown): unknown;
}
interface Listener {
    onValue(value: unknown, info: Info): void;
    onError: ((error: ProblemError) => void) | undefined;
}
export declare class Subscriptions implements Sink {
    #private;
    private readonly connect;
    private readonly written;
    /**
     * `connect` is called before the first subscription is made, and again after `reset`. `written` is the version of an
     * answer that this client has just had: what is subscribed to from now on must not be older.
     */
    constructor(connect: () => void, written?: () => string | undefined);
    get source(): Source | undefined;
    get isEmpty(): boolean;
    /** Begins to use a source. */
    use(source: Source): void;
    /** Forgets all values, which belong to another caller, reports that to their listeners, and asks for them anew. */
    reset(): void;
    /** Ends the use of the source. The values stay. */
    release(): void;
    close(): void;
    listen(query: string, args: Record<string, unknown>, listener: Listener): () => void;
    /** Applies a change to the present value of a query, if it is subscribed to. */
    apply(query: string, args: Record<string, unknown>, layer: Layer): AppliedLayer | undefined;
    /** Applies a change to all present values of a query that it changes, whatever their arguments. */
    applyToAll(query: string, change: (value: unknown, args: Record<string, unknown>) => unknown): AppliedLayer[];
    onStatus(listener: (status: Status) => void): () => void;
    state(id: string, state: State): void;
    refused(id: string, error: ProblemError): void;
    /** There is no source yet, for a reason that concerns all listeners. */
    fail(error: ProblemError): void;
    status(status: Status): void;
}
/** An optimistic change of one query. */
export interface AppliedLayer {
    /** The mutation was committed at this version. */
    answered(version: string | undefined): void;
    /** The mutation failed. */
    drop(): void;
}
export declare function idOf(query: string, args: Record<string, unknown>): string;
export {};
