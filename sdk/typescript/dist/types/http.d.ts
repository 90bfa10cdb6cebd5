import { type Tokens } from './tokens.js';
export interface Request {
    method: string;
    path: string;
    body?: unknown;
    headers?: Record<string, string>;
    signal?: AbortSignal;
    /** Is called when the token is there and the request is sent. */
    onSend?: () => void;
    /** Is called when the token was refused and another one is awaited, which may take as long as a source may. */
    onRenew?: () => void;
    /** The media type of the answer. With another one, it is not from the server but from the network in between. */
    accept?: string;
    /** Whose request this is. It is set when it is sent, and then it is sent again as this caller only. */
    caller?: string;
}
/** The application's source of tokens failed. */
export declare class TokenError {
    readonly cause: unknown;
    constructor(cause: unknown);
}
export declare class Http {
    #private;
    readonly tokens: Tokens;
    constructor(url: string, tokens: Tokens, fetcher: typeof fetch);
    /** Sends a request. Resolves with a 2xx answer; rejects with a `ProblemError`, a `ConnectionError` or a `TokenError`. */
    send(request: Request): Promise<Response & {
        token: string | undefined;
    }>;
}
