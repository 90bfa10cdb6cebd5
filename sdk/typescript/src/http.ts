// Requests with the caller's token. A 401 asks for a new token once.

import { ConnectionError, ProblemError } from './problem.js';
import type { Tokens } from './tokens.js';

export interface Request {
  method: string;
  path: string;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
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

  /** Sends a request. Resolves with a 2xx answer; rejects with a `ProblemError`, or a `ConnectionError`. */
  async send(request: Request): Promise<Response & { token: string | undefined }> {
    let token = await this.tokens.get();
    let response = await this.#once(request, token);
    if (response.status === 401 && token !== undefined) {
      const other = await this.tokens.renew(token);
      if (other !== undefined && other !== token) {
        await response.body?.cancel();
        token = other;
        response = await this.#once(request, token);
      }
    }
    if (!response.ok) throw await ProblemError.of(response);
    return Object.assign(response, { token });
  }

  async #once(request: Request, token: string | undefined): Promise<Response> {
    const headers: Record<string, string> = { ...request.headers };
    if (token !== undefined) headers['Authorization'] = `Bearer ${token}`;
    if (request.body !== undefined) headers['Content-Type'] = 'application/json';
    const init: RequestInit = { method: request.method, headers, cache: 'no-store' };
    if (request.body !== undefined) init.body = JSON.stringify(request.body);
    if (request.signal) init.signal = request.signal;
    try {
      return await this.#fetch(this.#base + request.path, init);
    } catch (error) {
      if (request.signal?.aborted) throw error;
      throw new ConnectionError(error);
    }
  }
}
