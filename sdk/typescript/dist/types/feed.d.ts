import { type Status, type Subscriber, type Subscription, type Timing } from './connection.js';
import type { Http } from './http.js';
import { ProblemError } from './problem.js';
import { type Frame, type State, type Wanted } from './state.js';
/** Where a tab gets its states from: a connection of its own, or that of another tab. */
export interface Source {
    /** Begins to deliver states, none of which is older than `notBefore`. `held` is what the tab holds already. */
    want(wanted: Wanted, held: State, notBefore?: string): void;
    drop(id: string): void;
    /** Asks for a state that is not older than `version`. */
    ask(id: string, version: string | undefined): void;
    close(): void;
}
/** What receives the states. */
export interface Sink {
    state(id: string, state: State): void;
    refused(id: string, error: ProblemError): void;
    status(status: Status): void;
}
export declare class Feed implements Source, Subscriber {
    #private;
    constructor(http: Http, timing: Timing, sink: Sink);
    want(wanted: Wanted, held: State, notBefore?: string): void;
    drop(id: string): void;
    ask(id: string, version: string | undefined): void;
    hurry(): void;
    close(): void;
    subscriptions(isPoll?: boolean): Subscription[];
    sending(subscriptions: Subscription[]): void;
    frame(event: string, version: string | undefined, frame: Frame): void;
    failed(error: ProblemError, keys?: string[]): void;
    refused(error: ProblemError, keys: string[]): void;
    status(status: Status): void;
}
