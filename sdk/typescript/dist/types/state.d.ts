import { ProblemError, type ProblemDocument } from './problem.js';
/** A live query with its arguments. `id` is equal for equal queries and arguments. */
export interface Wanted {
    id: string;
    query: string;
    args: Record<string, unknown>;
}
/** The newest known result of a live query: a value or a problem. */
export interface State {
    version: string | undefined;
    digest: string | undefined;
    /** The state surely contains what was committed up to this version, where that is older than `version` (PostgreSQL). */
    settled?: string;
    /** Absent until the first value, and after a problem. */
    value?: unknown;
    hasValue: boolean;
    problem?: {
        document: ProblemDocument;
        status: number;
    };
    /** The server answered a newer version with this state: the database was restored, and it is the present one. */
    isOlder?: boolean;
}
export declare const NOTHING: State;
/** The data of the events `value`, `rows`, `same` and `error`. */
export interface Frame {
    keys: string[];
    version?: string;
    settled?: string;
    digest?: string;
    value?: unknown;
    base?: string;
    by?: string;
    set?: [string, unknown][];
    gone?: string[];
    order?: string[];
    problem?: ProblemDocument;
}
/**
 * The state after an event; `undefined` if the client must ask for the whole value. The same object: nothing changed. An
 * event that `answers` what the client said it holds is the present state, also if it is older.
 */
export declare function after(state: State, event: string, version: string | undefined, frame: Frame, answers?: boolean): State | undefined;
/** Whether row changes are changes of what is held. */
export declare function isBase(state: State, frame: Frame): boolean;
export declare function errorOf(state: State): ProblemError | undefined;
/**
 * What the client says that it holds. Two digests are of no result, so that the server sends the whole value: `+` if a
 * value is shown, and `-` if there is none, so that the listener learns of a run that keeps failing.
 */
export declare function have(state: State, version?: string | undefined): string | undefined;
/** Canonical JSON: members sorted, `undefined` left out. */
export declare function canonical(value: unknown): string;
/** Applies changed rows: removes `gone`, replaces or appends `set`, then sorts by `order`. */
export declare function merge(value: unknown, frame: Frame): unknown[] | undefined;
