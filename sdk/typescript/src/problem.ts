// Errors: problem documents (RFC 9457) of the server, and requests that got no answer.

/** A problem document, as the server sends it. */
export interface ProblemDocument {
  type?: string;
  title?: string;
  status?: number;
  code?: string;
  detail?: string;
  errors?: { field: string; detail?: string }[];
}

/** The server refused a request, or could not serve it. */
export class ProblemError extends Error {
  override readonly name = 'ProblemError';
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

  constructor(document: ProblemDocument, status = document.status ?? 500, retryAfter?: number, requestId?: string) {
    super(document.detail ?? document.title ?? `The server answered with status ${status}.`);
    this.document = document;
    this.status = status;
    this.code = document.code ?? `http_${status}`;
    this.retryAfter = retryAfter;
    this.requestId = requestId;
    this.field = document.errors?.[0]?.field;
  }

  /** Whether the same request may succeed later. */
  get isPassing(): boolean {
    return this.status === 429 || this.status === 408 || (this.status >= 500 && this.code !== 'internal');
  }

  /** The problem of an answer whose status is not 2xx. */
  static async of(response: Response): Promise<ProblemError> {
    let document: ProblemDocument = {};
    try {
      const body: unknown = await response.json();
      if (typeof body === 'object' && body !== null) document = body;
    } catch {
      // A proxy's page, for example: the status is all there is.
    }
    const { headers } = response;
    const requestId = headers.get('X-Request-Id') ?? undefined;
    return new ProblemError(document, response.status, seconds(headers.get('Retry-After')), requestId);
  }
}

/** For live queries whose user has changed: the client itself reports it, so it has no status. */
export function callerChanged(): ProblemError {
  return new ProblemError({ code: 'caller_changed', detail: 'Another user is signed in now.' }, 0);
}

/** For live queries without a token, because the application's source failed. */
export function tokenFailed(cause: unknown): ProblemError {
  const detail = `There is no access token: ${cause instanceof Error ? cause.message : String(cause)}`;
  return Object.assign(new ProblemError({ code: 'token_failed', detail }, 0), { cause });
}

/** No answer: the network or the server failed. Whether the request was carried out is unknown. */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError';

  constructor(cause: unknown) {
    super('No answer came. Whether the request was carried out is not known: check that before you send it again.', { cause });
  }
}

function seconds(header: string | null): number | undefined {
  if (header === null) return undefined;
  const number = Number(header);
  if (Number.isFinite(number)) return Math.max(0, number);
  const date = Date.parse(header);
  return Number.isNaN(date) ? undefined : Math.max(0, (date - Date.now()) / 1000);
}
