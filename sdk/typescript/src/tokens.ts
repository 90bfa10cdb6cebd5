// Access tokens: where they come from, when they expire, and who they stand for.

/**
 * Returns an access token. `refused` is the token that the server did not accept (or that is about to expire): return
 * another one then, or reject. Without `refused` a cached token is fine.
 */
export type TokenSource = (refused?: string) => Promise<string | null | undefined> | string | null | undefined;

/**
 * The members of a JWT that may differ between two tokens of the same user: times and ids; of ID tokens what belongs to one
 * sign-in (OpenID Connect Core); and what Microsoft Entra puts into each token for itself. The server has the same list,
 * in `rights` of `crates/live/src/http/streams.rs`: change both.
 */
const CHANGES_WITH_REFRESH = new Set([
  ...['iat', 'exp', 'nbf', 'jti', 'auth_time'],
  ...['at_hash', 'c_hash', 's_hash', 'nonce'],
  ...['uti', 'aio', 'rh'],
]);

export class Tokens {
  readonly #source: TokenSource | undefined;
  readonly #limitMs: number;
  #refused: string | undefined;
  #renewing: Promise<string | undefined> | undefined;
  /** Whether the renewal is for a token that was refused. Requests wait for it then. */
  #isNeeded = false;
  #caller: string | undefined;
  #token: string | undefined;
  /** Questions to the source are numbered. Answers to those before the last sign-in are void. */
  #asks = 0;
  #signedInAt = 0;
  /** The question whose answer gave `#token`. */
  #answered = 0;
  /** Is called when a token stands for another caller than the one before; `undefined`: nobody knows for whom. */
  onCaller: (caller: string | undefined) => void = () => {};

  constructor(source: TokenSource | undefined, limitMs: number) {
    this.#source = source;
    this.#limitMs = limitMs;
  }

  /** For whom the last token stands, that token, and how many sign-ins there were. */
  get known(): { caller: string | undefined; token: string | undefined; signedInAt: number } {
    const token = this.#caller === undefined ? undefined : this.#token;
    return { caller: this.#caller, token, signedInAt: this.#signedInAt };
  }

  /** The token for the next request. */
  async get(): Promise<string | undefined> {
    if (!this.#source) return undefined;
    if (this.#renewing && this.#isNeeded) return this.#renewing;
    const ask = (this.#asks += 1);
    const token = await this.#ask();
    // The application may still have the token in its cache that the server refused.
    if (token !== undefined && token === this.#refused) return this.renew(token);
    return this.#note(token, ask);
  }

  /** Another token than `refused`. Requests that are refused at the same time ask once. */
  renew(refused: string | undefined): Promise<string | undefined> {
    this.#refused = refused;
    this.#isNeeded = true;
    return this.refresh(refused);
  }

  /** Another token than `old`, which is good until it expires. */
  refresh(old: string | undefined): Promise<string | undefined> {
    if (this.#renewing) return this.#renewing;
    const ask = (this.#asks += 1);
    const answer = this.#ask(old).then((token) => this.#note(token, ask));
    const renewing = answer.finally(() => this.#renewing === renewing && this.#endRenewal());
    this.#renewing = renewing;
    return renewing;
  }

  /** The user has signed in or out: asks anew. If the source fails then, nobody is known to be signed in. */
  async signedIn(): Promise<void> {
    const at = (this.#signedInAt = this.#asks += 1);
    this.#endRenewal();
    try {
      await this.get();
    } catch (error) {
      if (at === this.#signedInAt && this.#caller !== undefined) {
        this.#caller = undefined;
        this.onCaller(undefined);
      }
      throw error;
    }
  }

  /** Who the present token stands for; equal for all tokens of one caller. */
  async caller(): Promise<string> {
    const token = await this.get();
    return this.#caller ?? callerOf(token);
  }

  #endRenewal(): void {
    this.#renewing = undefined;
    this.#isNeeded = false;
  }

  /** Asks the source, for a limited time. */
  async #ask(refused?: string): Promise<string | undefined> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) => {
      const error = new Error(`\`token\` has not returned for ${this.#limitMs / 1000} seconds.`);
      timer = setTimeout(() => reject(error), this.#limitMs);
      // In Node.js a source that hangs must not keep the process alive.
      (timer as { unref?(): void }).unref?.();
    });
    try {
      // `localStorage.getItem` returns null.
      return (await Promise.race([this.#source?.(refused), late])) ?? undefined;
    } finally {
      clearTimeout(timer);
    }
  }

  async #note(token: string | undefined, ask: number): Promise<string | undefined> {
    const caller = await callerOf(token);
    if (ask < this.#signedInAt) return this.get();
    const isOther = this.#caller !== undefined && caller !== this.#caller;
    if (ask < this.#answered) return isOther ? this.#token : token;
    [this.#answered, this.#token, this.#caller] = [ask, token, caller];
    if (isOther) this.onCaller(caller);
    return token;
  }
}

/** When a JWT expires, in milliseconds; `undefined` for other tokens. */
export function expiry(token: string | undefined): number | undefined {
  const exp = claims(token)?.['exp'];
  return typeof exp === 'number' ? exp * 1000 : undefined;
}

/** Which user a JWT names; equal for tokens that name none. */
export function subjectOf(token: string | undefined): string {
  const known = claims(token);
  return JSON.stringify([known?.['iss'], known?.['sub']]);
}

/** Whether two JWTs name two users. */
export function namesOther(one: string | undefined, other: string | undefined): boolean {
  const haveSubject = claims(one)?.['sub'] !== undefined && claims(other)?.['sub'] !== undefined;
  return haveSubject && subjectOf(one) !== subjectOf(other);
}

/** A short text for the caller of a token: of a JWT with `sub` the claims that last, of others the token, hashed. */
export async function callerOf(token: string | undefined): Promise<string> {
  if (token === undefined) return 'anonymous';
  const known = claims(token);
  const identity = known?.['sub'] === undefined ? { token } : known;
  const members = Object.entries(identity).filter(([name]) => !CHANGES_WITH_REFRESH.has(name));
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
