import type { Tokens } from './tokens.js';
export interface Request {
    method: string;
    path: string;
    body?: unknown;
    headers?: Record<string, string>;
    signal?: AbortSignal;
}
export declare class Http {
    #private;
    readonly tokens: Tokens;
    constructor(url: string, tokens: Tokens, fetcher: typeof fetch);
    /** Sends a request. Resolves with a 2xx answer; rejects with a `ProblemError`, or a `ConnectionError`. */
    send(request: Request): Promise<Response & {
        token: string | undefined;
    }>;
}
