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
  /** The HTTP status. */
  readonly status: number;
  /** Seconds after which a retry may succeed. */
  readonly retryAfter: number | undefined;
  /** The first wrong field of the request. */
  readonly field: string | undefined;
  /** The whole document. */
  readonly document: ProblemDocument;

  constructor(document: ProblemDocument, status = document.status ?? 500, retryAfter?: number) {
    super(document.detail ?? document.title ?? `The server answered with status ${status}.`);
    this.document = document;
    this.status = status;
    this.code = document.code ?? `http_${status}`;
    this.retryAfter = retryAfter;
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
    return new ProblemError(document, response.status, seconds(response.headers.get('Retry-After')));
  }
}

/** No answer: the network or the server failed. Whether the request was carried out is unknown. */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError';

  constructor(cause: unknown) {
    super('The server could not be reached. Check the connection and try again.', { cause });
  }
}

function seconds(header: string | null): number | undefined {
  if (header === null) return undefined;
  const number = Number(header);
  if (Number.isFinite(number)) return Math.max(0, number);
  const date = Date.parse(header);
  return Number.isNaN(date) ? undefined : Math.max(0, (date - Date.now()) / 1000);
}
