import { type Status, type Timing } from './connection.js';
import { ProblemError } from './problem.js';
import { type Info } from './subscriptions.js';
import { type TokenSource } from './tokens.js';
interface Described {
    args: any;
    value: any;
}
/** What `App::typescript` of the back end prints. */
export interface ApiShape {
    queries: {
        [name: string]: Described;
    } | {};
    mutations: {
        [name: string]: Described;
    } | {};
}
/** Without the back end's types everything may be called. */
export interface AnyApi {
    queries: {
        [name: string]: Described;
    };
    mutations: {
        [name: string]: Described;
    };
}
/** The names of the queries or mutations of an `Api`, for functions that pass them on. */
export type Name<Part> = keyof Part & string;
/** The arguments of one of them. */
export type Args<Part, N extends keyof Part> = Part[N] extends {
    args: infer A;
} ? A : never;
/** Its answer. */
export type Value<Part, N extends keyof Part> = Part[N] extends {
    value: infer V;
} ? V : never;
type Calls<A extends ApiShape> = A['queries'] & A['mutations'];
export interface ClientOptions {
    /** Where the back end is. Default: the page's own origin. */
    url?: string;
    /** Returns the access token. Without it the caller is anonymous. */
    token?: TokenSource;
    /** Whether the tabs of a browser share one stream. Default: yes, where the browser can. */
    share?: boolean;
    /** Times in milliseconds, for servers with another heartbeat. */
    timing?: Partial<Timing>;
    /** Another `fetch`. */
    fetch?: typeof fetch;
}
export interface CallOptions<A extends ApiShape> {
    /** Makes a mutation safe to send again: `call` then repeats it itself after failures that pass. */
    idempotencyKey?: string;
    /** Changes what live queries show until the server's own value arrives. Runs at once. */
    optimistic?: (local: Local<A>) => void;
    /** Calls with the same name here are sent one after another, each when the one before has ended. Others have no order. */
    queue?: string;
    signal?: AbortSignal;
}
/** The live queries of this tab, for optimistic changes. */
export interface Local<A extends ApiShape> {
    /** Changes what a live query shows, if it is subscribed to. `change` returns a new value and leaves the old one alone. */
    update<N extends Name<A['queries']>>(query: N, args: Args<A['queries'], N>, change: (value: Value<A['queries'], N>) => Value<A['queries'], N>): void;
    /**
     * The same for all live queries of this name that have a value, such as the pages of a list. `change` returns the value
     * itself where nothing changes.
     */
    updateAll<N extends Name<A['queries']>>(query: N, change: (value: Value<A['queries'], N>, args: Args<A['queries'], N>) => Value<A['queries'], N>): void;
}
/** The answer of a call. */
export interface Answer<V> {
    value: V;
    /** The version of the database that the answer comes from, or at which the mutation was committed. */
    version: string | undefined;
    /** Of a query whose answer may lack commits just before its version (PostgreSQL): it has every commit before this one. */
    settled?: string;
}
export declare class Client<A extends ApiShape = AnyApi> {
    #private;
    constructor(options?: ClientOptions);
    /** Calls a query or a mutation. Rejects with a `ProblemError` or a `ConnectionError`. */
    call<N extends Name<Calls<A>>>(name: N, args: Args<Calls<A>, N>, options?: CallOptions<A>): Promise<Answer<Value<Calls<A>, N>>>;
    /**
     * Subscribes to a query: `onValue` receives the present value, and each later one. Equal subscriptions share one. After
     * `onError` the subscription goes on: a value follows if the problem passes. Returns what ends the subscription.
     */
    live<N extends Name<A['queries']>>(query: N, args: Args<A['queries'], N>, onValue: (value: Value<A['queries'], N>, info: Info) => void, onError?: (error: ProblemError) => void): () => void;
    /** Calls back with the state of the connection, now and whenever it changes. Returns what ends that. */
    onStatus(listener: (status: Status) => void): () => void;
    /**
     * The user has signed in or out: asks `token` anew, and starts over if another caller is signed in now. If `token`
     * throws, this rejects, and the values of the user before are forgotten.
     */
    signedIn(): Promise<void>;
    /** Ends all subscriptions. */
    close(): void;
}
export {};
