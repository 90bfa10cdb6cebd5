/**
 * Returns an access token. `refused` is the token that the server did not accept (or that is about to expire): return
 * another one then, or reject. Without `refused` a cached token is fine.
 */
export type TokenSource = (refused?: string) => Promise<string | null | undefined> | string | null | undefined;
export declare class Tokens {
    #private;
    /** Is called when a token stands for another caller than the one before; `undefined`: nobody knows for whom. */
    onCaller: (caller: string | undefined) => void;
    constructor(source: TokenSource | undefined, limitMs: number);
    /** For whom the last token stands, that token, and how many sign-ins there were. */
    get known(): {
        caller: string | undefined;
        token: string | undefined;
        signedInAt: number;
    };
    /** The token for the next request. */
    get(): Promise<string | undefined>;
    /** Another token than `refused`. Requests that are refused at the same time ask once. */
    renew(refused: string | undefined): Promise<string | undefined>;
    /** Another token than `old`, which is good until it expires. */
    refresh(old: string | undefined): Promise<string | undefined>;
    /** The user has signed in or out: asks anew. If the source fails then, nobody is known to be signed in. */
    signedIn(): Promise<void>;
    /** Who the present token stands for; equal for all tokens of one caller. */
    caller(): Promise<string>;
}
/** When a JWT expires, in milliseconds; `undefined` for other tokens. */
export declare function expiry(token: string | undefined): number | undefined;
/** Which user a JWT names; equal for tokens that name none. */
export declare function subjectOf(token: string | undefined): string;
/** Whether two JWTs name two users. */
export declare function namesOther(one: string | undefined, other: string | undefined): boolean;
/** A short text for the caller of a token: of a JWT with `sub` the claims that last, of others the token, hashed. */
export declare function callerOf(token: string | undefined): Promise<string>;
