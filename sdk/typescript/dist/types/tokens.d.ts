/**
 * Returns an access token. `refused` is the token that the server did not accept (or that is about to expire): return
 * another one then, or reject. Without `refused` a cached token is fine.
 */
export type TokenSource = (refused?: string) => Promise<string | undefined> | string | undefined;
export declare class Tokens {
    #private;
    /** Is called when a token stands for another caller than the one before. */
    onCaller: (caller: string) => void;
    constructor(source: TokenSource | undefined);
    /** The token for the next request. */
    get(): Promise<string | undefined>;
    /** Another token than `refused`. Requests that are refused at the same time ask once. */
    renew(refused: string | undefined): Promise<string | undefined>;
    /** Who the present token stands for; equal for all tokens of one caller. */
    caller(): Promise<string>;
}
/** When a JWT expires, in milliseconds; `undefined` for other tokens. */
export declare function expiry(token: string | undefined): number | undefined;
/** A short text for the caller of a token: of a JWT its claims without times, of other tokens the token, hashed. */
export declare function callerOf(token: string | undefined): Promise<string>;
