// Requests with the caller's token. A 401 asks for a new token once. What one caller asked for is not sent as another one.

import { callerChanged, ConnectionError, ProblemError } from './problem.js';
import { callerOf, namesOther, subjectOf, type Tokens } from './tokens.js';

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
export class TokenError {
  constructor(readonly cause: unknown) {}
}

export class Http {
  readonly tokens: Tokens;
  readonly #base: string;
  readonly #fetch: typeof fetch;

  constructor(url: string, tokens: Tokens, fetcher: typeof fetch) {
    this.#base = url.replace(/\/+$/, '');
    this.tokens = tokens;
    this.#fetch = fetcher;
  }

  /** Sends a request. Resolves with a 2xx answer; rejects with a `ProblemError`, a `ConnectionError` or a `TokenError`. */
  async send(request: Request): Promise<Response & { token: string | undefined }> {
    const before = this.tokens.known;
    let token = await this.#token(() => this.tokens.get(), request.signal);
    const caller = await callerOf(token);
    // A sign-in while the token was awaited: the request belongs to the user before.
    const isVoid = before.signedInAt !== this.tokens.known.signedInAt;
    const expected = request.caller ?? (isVoid ? before.caller : undefined);
    if (expected !== undefined && expected !== caller) throw callerChanged();
    // Another tab may have signed in another user: what the page shows is of the one before.
    if (namesOther(before.token, token)) throw callerChanged();
    request.caller = caller;
    let response = await this.#once(request, token);
    if (response.status === 401 && token !== undefined) {
      const refused = token;
      const problem = await ProblemError.of(response);
      request.onRenew?.();
      const other = await this.#token(() => this.tokens.renew(refused), request.signal);
      const isOther = other !== undefined && other !== refused;
      if (!isOther || !(await this.#replaces(refused, other, before.signedInAt))) throw problem;
      token = other;
      request.caller = await callerOf(token);
      response = await this.#once(request, token);
    }
    if (!response.ok) throw await ProblemError.of(response);
    const type = (response.headers.get('Content-Type') ?? 'no media type').toLowerCase();
    if (request.accept !== undefined && !type.startsWith(request.accept)) {
      response.body?.cancel().catch(() => {});
      throw new ConnectionError(new Error(`The answer has ${type} instead of ${request.accept}.`));
    }
    return Object.assign(response, { token });
  }

  /** Whether a token is of the same user. The source says so, unless the tokens or a sign-in say otherwise. */
  async #replaces(refused: string, token: string, signedInAt: number): Promise<boolean> {
    if (signedInAt === this.tokens.known.signedInAt) return subjectOf(refused) === subjectOf(token);
    return (await callerOf(refused)) === (await callerOf(token));
  }

  /** A token, or the end of the request: a source may take long. */
  #token(ask: () => Promise<string | undefined>, signal: AbortSignal | undefined): Promise<string | undefined> {
    return new Promise((resolve, reject) => {
      const stop = () => reject(signal?.reason);
      if (signal?.aborted) return stop();
      signal?.addEventListener('abort', stop, { once: true });
      ask()
        .then(resolve, (error) => reject(new TokenError(error)))
        .finally(() => signal?.removeEventListener('abort', stop));
    });
  }

  async #once(request: Request, token: string | undefined): Promise<Response> {
    const headers: Record<string, string> = { ...request.headers };
    if (token !== undefined) headers['Authorization'] = `Bearer ${token}`;
    if (request.accept !== undefined) headers['Accept'] = request.accept;
    if (request.body !== undefined) headers['Content-Type'] = 'application/json';
    const init: RequestInit = { method: request.method, headers, cache: 'no-store' };
    if (request.body !== undefined) init.body = JSON.stringify(request.body);
    if (request.signal) init.signal = request.signal;
    // A header that cannot be sent is a mistake of the application, and no failure of the connection.
    new Headers(headers);
    request.onSend?.();
    try {
      return await this.#fetch(this.#base + request.path, init);
    } catch (error) {
      if (request.signal?.aborted) throw error;
      throw new ConnectionError(error);
    }
  }
}
