import type { Timing } from './connection.js';
import { type Sink, type Source } from './feed.js';
import type { Http } from './http.js';
import { type State, type Wanted } from './state.js';
/** Whether this is a browser's tab that can share. Locks exist in secure contexts only. */
export declare function canShare(): boolean;
export declare class SharedSource implements Source {
    #private;
    constructor(name: string, http: Http, timing: Timing, sink: Sink);
    want(wanted: Wanted, held: State, notBefore?: string): void;
    drop(id: string): void;
    ask(id: string, version: string | undefined): void;
    hurry(): void;
    close(): void;
}
