// Access tokens: where they come from, when they expire, and who they stand for.

/**
 * Returns an access token. `refused` is the token that the server did not accept (or that is about to expire): return
 * another one then, or reject. Without `refused` a cached token is fine.
 */
export type TokenSource = (refused?: string) => Promise<string | undefined> | string | undefined;

/** The members of a JWT that differ between two tokens of the same caller. */
const CHANGES_WITH_REFRESH = new Set(['iat', 'exp', 'nbf', 'jti', 'auth_time']);

export class Tokens {
  readonly #source: TokenSource | undefined;
  #refused: string | undefined;
  #renewing: Promise<string | undefined> | undefined;
  #caller: string | undefined;
  /** Is called when a token stands for another caller than the one before. */
  onCaller: (caller: string) => void = () => {};

  constructor(source: TokenSource | undefined) {
    this.#source = source;
  }

  /** The token for the next request. */
  async get(): Promise<string | undefined> {
    if (!this.#source) return undefined;
    if (this.#renewing) return this.#renewing;
    const token = await this.#source();
    // The application may still have the token in its cache that the server refused.
    if (token !== undefined && token === this.#refused) return this.renew(token);
    return this.#note(token);
  }

  /** Another token than `refused`. Requests that are refused at the same time ask once. */
  renew(refused: string | undefined): Promise<string | undefined> {
    this.#refused = refused;
    this.#renewing ??= (async () => {
      try {
        return this.#note(await this.#source?.(refused));
      } finally {
        this.#renewing = undefined;
      }
    })();
    return this.#renewing;
  }

  /** Who the present token stands for; equal for all tokens of one caller. */
  async caller(): Promise<string> {
    await this.get();
    return (this.#caller ??= await callerOf(undefined));
  }

  async #note(token: string | undefined): Promise<string | undefined> {
    const caller = await callerOf(token);
    const isOther = this.#caller !== undefined && caller !== this.#caller;
    this.#caller = caller;
    if (isOther) this.onCaller(caller);
    return token;
  }
}

/** When a JWT expires, in milliseconds; `undefined` for other tokens. */
export function expiry(token: string | undefined): number | undefined {
  const exp = claims(token)?.['exp'];
  return typeof exp === 'number' ? exp * 1000 : undefined;
}

/** A short text for the caller of a token: of a JWT its claims without times, of other tokens the token, hashed. */
export async function callerOf(token: string | undefined): Promise<string> {
  if (token === undefined) return 'anonymous';
  const members = Object.entries(claims(token) ?? { token }).filter(([name]) => !CHANGES_WITH_REFRESH.has(name));
  const text = JSON.stringify(members.sort(([one], [other]) => (one < other ? -1 : 1)));
  // Without a secure context there is no hash, and no lock that tabs could share either: the text stays in this tab.
  if (!globalThis.crypto?.subtle) return text;
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)));
  return Array.from(hash.subarray(0, 16), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

function claims(token: string | undefined): Record<string, unknown> | undefined {
  const payload = token?.split('.')[1];
  if (!payload) return undefined;
  try {
    const bytes = Uint8Array.from(atob(payload.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0));
    const parsed: unknown = JSON.parse(new TextDecoder().decode(bytes));
    return typeof parsed === 'object' && parsed !== null ? (parsed as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}
