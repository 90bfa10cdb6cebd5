/** A problem document, as the server sends it. */
export interface ProblemDocument {
    type?: string;
    title?: string;
    status?: number;
    code?: string;
    detail?: string;
    errors?: {
        field: string;
        detail?: string;
    }[];
}
/** The server refused a request, or could not serve it. */
export declare class ProblemError extends Error {
    readonly name = "ProblemError";
    /** Stable, snake_case: what a program decides by. */
    readonly code: string;
    /** The HTTP status; 0 for problems that the client itself reports. */
    readonly status: number;
    /** Seconds after which a retry may succeed. */
    readonly retryAfter: number | undefined;
    /** The id of the request, by which the server's log has it; where the server has answered. */
    readonly requestId: string | undefined;
    /** The first wrong field of the request. */
    readonly field: string | undefined;
    /** The whole document. */
    readonly document: ProblemDocument;
    constructor(document: ProblemDocument, status?: number, retryAfter?: number, requestId?: string);
    /** Whether the same request may succeed later. */
    get isPassing(): boolean;
    /** The problem of an answer whose status is not 2xx. */
    static of(response: Response): Promise<ProblemError>;
}
/** For live queries whose user has changed: the client itself reports it, so it has no status. */
export declare function callerChanged(): ProblemError;
/** For live queries without a token, because the application's source failed. */
export declare function tokenFailed(cause: unknown): ProblemError;
/** No answer: the network or the server failed. Whether the request was carried out is unknown. */
export declare class ConnectionError extends Error {
    readonly name = "ConnectionError";
    constructor(cause: unknown);
}
