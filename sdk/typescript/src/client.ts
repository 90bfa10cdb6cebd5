// The client: calls, live queries and optimistic changes, typed by the back end's `Api`.

import { pause, sleep } from './backoff.js';
import { TIMING, type Status, type Timing, watchedBy } from './connection.js';
import { Feed, type Source } from './feed.js';
import { Http, type Request, TokenError } from './http.js';
import { callerChanged, ConnectionError, ProblemError, tokenFailed } from './problem.js';
import { type AppliedLayer, type Info, Subscriptions } from './subscriptions.js';
import { canShare, SharedSource } from './tabs.js';
import { Watchdog } from './timers.js';
import { namesOther, Tokens, type TokenSource } from './tokens.js';
import { replaces } from './version.js';

/** Why a call ends to which no answer comes. */
const SILENT = 'silent';

interface Described {
  args: any;
  value: any;
}

/** What `App::typescript` of the back end prints. */
export interface ApiShape {
  queries: { [name: string]: Described } | {};
  mutations: { [name: string]: Described } | {};
}

/** Without the back end's types everything may be called. */
export interface AnyApi {
  queries: { [name: string]: Described };
  mutations: { [name: string]: Described };
}

/** The names of the queries or mutations of an `Api`, for functions that pass them on. */
export type Name<Part> = keyof Part & string;
/** The arguments of one of them. */
export type Args<Part, N extends keyof Part> = Part[N] extends { args: infer A } ? A : never;
/** Its answer. */
export type Value<Part, N extends keyof Part> = Part[N] extends { value: infer V } ? V : never;
type Calls<A extends ApiShape> = A['queries'] & A['mutations'];

export interface ClientOptions {
  /** Where the back end is. Default: the page's own origin. */
  url?: string;
  /** Returns the access token. Without it the caller is anonymous. */
  token?: TokenSource;
  /** Whether the tabs of a browser share one stream. Default: yes, where the browser can. */
  share?: boolean;
  /** Times in milliseconds, for servers with another heartbeat. */
  timing?: Partial<Timing>;
  /** Another `fetch`. */
  fetch?: typeof fetch;
}

export interface CallOptions<A extends ApiShape> {
  /** Makes a mutation safe to send again: `call` then repeats it itself after failures that pass. */
  idempotencyKey?: string;
  /** Changes what live queries show until the server's own value arrives. Runs at once. */
  optimistic?: (local: Local<A>) => void;
  /** Calls with the same name here are sent one after another, each when the one before has ended. Others have no order. */
  queue?: string;
  signal?: AbortSignal;
}

/** The live queries of this tab, for optimistic changes. */
export interface Local<A extends ApiShape> {
  /** Changes what a live query shows, if it is subscribed to. `change` returns a new value and leaves the old one alone. */
  update<N extends Name<A['queries']>>(
    query: N,
    args: Args<A['queries'], N>,
    change: (value: Value<A['queries'], N>) => Value<A['queries'], N>,
  ): void;
  /**
   * The same for all live queries of this name that have a value, such as the pages of a list. `change` returns the value
   * itself where nothing changes.
   */
  updateAll<N extends Name<A['queries']>>(
    query: N,
    change: (value: Value<A['queries'], N>, args: Args<A['queries'], N>) => Value<A['queries'], N>,
  ): void;
}

/** The answer of a call. */
export interface Answer<V> {
  value: V;
  /** The version of the database that the answer comes from, or at which the mutation was committed. */
  version: string | undefined;
  /** Of a query whose answer may lack commits just before its version (PostgreSQL): it has every commit before this one. */
  settled?: string;
}

/** What is subscribed to within this time after an answer is not older than that: another instance may not have heard of it. */
const WRITTEN_MS = 10_000;
/** So often `call` repeats a mutation with an idempotency key. */
const REPEATS = 3;
/** It does not repeat where the server asks for a longer pause, in seconds. */
const RETRY_AFTER_MAX = 30;

export class Client<A extends ApiShape = AnyApi> {
  readonly #http: Http;
  readonly #timing: Timing;
  readonly #url: string;
  readonly #share: boolean;
  readonly #subscriptions: Subscriptions;
  #source: (Source & { hurry(): void }) | undefined;
  #connecting = false;
  /** Ends the pause before the token source is asked again. */
  #rest = new AbortController();
  #closed = false;
  /** The newest version of this client's answers: queries read a state that is not older. */
  #version: string | undefined;
  /** The ends of the calls that have an order, by queue. */
  readonly #queues = new Map<string, Promise<void>>();
  /** When that answer came, by the page's clock. */
  #answeredAt = -Infinity;
  readonly #hurry = () => {
    this.#rest.abort();
    this.#source?.hurry();
  };
  /** The user looks at the tab again: another one may have signed in elsewhere, which a tab without requests cannot see. */
  readonly #seen = () => {
    if (typeof document !== 'undefined' && document.visibilityState !== 'visible') return;
    this.#hurry();
    if (this.#source) this.#http.tokens.get().catch(() => {});
  };
  /** The browser may keep the page and show it again. WebKit ends the page's locks meanwhile without telling it. */
  readonly #left = () => {
    this.#source = undefined;
    this.#subscriptions.release();
  };
  readonly #back = (event: PageTransitionEvent) => {
    if (event.persisted && !this.#closed && !this.#subscriptions.isEmpty) void this.#connect();
  };

  constructor(options: ClientOptions = {}) {
    this.#timing = { ...TIMING, ...options.timing };
    const tokens = new Tokens(options.token, this.#timing.token);
    tokens.onCaller = () => this.#restart();
    this.#url = options.url ?? (typeof location === 'undefined' ? '' : location.origin);
    this.#http = new Http(this.#url, tokens, options.fetch ?? ((...request) => fetch(...request)));
    this.#share = (options.share ?? true) && canShare();
    const written = () => (performance.now() - this.#answeredAt < WRITTEN_MS ? this.#version : undefined);
    this.#subscriptions = new Subscriptions(() => void this.#connect(), written);
    globalThis.addEventListener?.('online', this.#hurry);
    globalThis.addEventListener?.('pagehide', this.#left);
    globalThis.addEventListener?.('pageshow', this.#back);
    globalThis.addEventListener?.('pageshow', this.#seen);
    // Another window may have been used beside this one, which was visible all the time.
    globalThis.addEventListener?.('focus', this.#seen);
    if (typeof document !== 'undefined') document.addEventListener('visibilitychange', this.#seen);
  }

  /** Calls a query or a mutation. Rejects with a `ProblemError` or a `ConnectionError`. */
  async call<N extends Name<Calls<A>>>(
    name: N,
    args: Args<Calls<A>, N>,
    options: CallOptions<A> = {},
  ): Promise<Answer<Value<Calls<A>, N>>> {
    const layers: AppliedLayer[] = [];
    const update = (query: string, of: unknown, change: (value: never) => unknown) => {
      const apply = (value: unknown) => change(value as never);
      const layer = this.#subscriptions.apply(query, (of ?? {}) as Record<string, unknown>, { apply });
      if (layer) layers.push(layer);
    };
    const updateAll = (query: string, change: (value: never, of: never) => unknown) => {
      layers.push(...this.#subscriptions.applyToAll(query, (value, of) => change(value as never, of as never)));
    };
    try {
      options.optimistic?.({ update, updateAll } as Local<A>);
      // As they are now: the application may change its object before the request is sent, or sent again.
      const sent: unknown = JSON.parse(JSON.stringify(args ?? {}));
      const send = (caller?: string) => this.#send<Value<Calls<A>, N>>(name, sent, options, caller);
      const answer = await (options.queue === undefined ? send() : this.#inTurn(options.queue, options.signal, send));
      layers.forEach((layer) => layer.answered(answer.version));
      return answer;
    } catch (error) {
      layers.forEach((layer) => layer.drop());
      throw error;
    }
  }

  /**
   * Subscribes to a query: `onValue` receives the present value, and each later one. Equal subscriptions share one. After
   * `onError` the subscription goes on: a value follows if the problem passes. Returns what ends the subscription.
   */
  live<N extends Name<A['queries']>>(
    query: N,
    args: Args<A['queries'], N>,
    onValue: (value: Value<A['queries'], N>, info: Info) => void,
    onError?: (error: ProblemError) => void,
  ): () => void {
    if (this.#closed) throw new Error('The client is closed. Make a new one.');
    const listener = { onValue: onValue as (value: unknown, info: Info) => void, onError };
    return this.#subscriptions.listen(query, (args ?? {}) as Record<string, unknown>, listener);
  }

  /** Calls back with the state of the connection, now and whenever it changes. Returns what ends that. */
  onStatus(listener: (status: Status) => void): () => void {
    return this.#subscriptions.onStatus(listener);
  }

  /**
   * The user has signed in or out: asks `token` anew, and starts over if another caller is signed in now. If `token`
   * throws, this rejects, and the values of the user before are forgotten.
   */
  async signedIn(): Promise<void> {
    await this.#http.tokens.signedIn();
    this.#hurry();
  }

  /** Ends all subscriptions. */
  close(): void {
    this.#closed = true;
    this.#source = undefined;
    this.#rest.abort();
    this.#subscriptions.close();
    globalThis.removeEventListener?.('online', this.#hurry);
    globalThis.removeEventListener?.('pagehide', this.#left);
    globalThis.removeEventListener?.('pageshow', this.#back);
    globalThis.removeEventListener?.('pageshow', this.#seen);
    globalThis.removeEventListener?.('focus', this.#seen);
    if (typeof document !== 'undefined') document.removeEventListener('visibilitychange', this.#seen);
  }

  /** Sends a call when those of its queue that were made before have ended, however they did. */
  async #inTurn<V>(
    queue: string,
    signal: AbortSignal | undefined,
    send: (caller?: string) => Promise<V>,
  ): Promise<V> {
    // Whoever is signed in when its turn comes: it is of the caller of now. A source that fails tells so then.
    const tokens = this.#http.tokens;
    const { caller, token, signedInAt } = tokens.known;
    const isVoid = () => signedInAt !== tokens.known.signedInAt;
    // Another tab may have signed in somebody else: then it is of whom this page shows.
    const isOther = () => isVoid() || namesOther(token, tokens.known.token);
    const whose = tokens.caller().then((of) => (isOther() ? caller : of), () => caller);
    const before = this.#queues.get(queue) ?? Promise.resolve();
    let end = () => {};
    const own = new Promise<void>((resolve) => (end = resolve));
    // Also one that is aborted ends only after those before it.
    const all = before.then(() => own);
    this.#queues.set(queue, all);
    void all.then(() => this.#queues.get(queue) === all && this.#queues.delete(queue));
    const abort = aborted(signal);
    try {
      await Promise.race([before, abort.happens]);
      const of = await Promise.race([whose, abort.happens]);
      // Nobody knew whose it is before somebody signed in.
      if (of === undefined && isVoid()) throw callerChanged();
      return await send(of);
    } finally {
      abort.stop();
      end();
    }
  }

  async #send<V>(name: string, body: unknown, options: CallOptions<A>, caller?: string): Promise<Answer<V>> {
    const headers: Record<string, string> = {};
    if (options.idempotencyKey !== undefined) headers['Idempotency-Key'] = options.idempotencyKey;
    if (this.#version) headers['Sarsen-Version'] = this.#version;
    const signal = options.signal ?? new AbortController().signal;
    // One object for all attempts: they are of one caller.
    const request: Request = { method: 'POST', path: `/rpc/${encodeURIComponent(name)}`, body, headers, ...(caller !== undefined && { caller }) };
    let last: unknown;
    for (let attempt = 0; ; attempt += 1) {
      try {
        const answer = await this.#attempt<V>(request, signal);
        if (replaces(answer.version, this.#version)) this.#version = answer.version;
        this.#answeredAt = performance.now();
        return answer;
      } catch (error) {
        if (error instanceof TokenError) throw error.cause;
        if (error instanceof ProblemError && error.code === 'caller_changed') throw last ?? error;
        last = error;
        const isPassing = error instanceof ConnectionError || (error instanceof ProblemError && error.isPassing);
        if (options.idempotencyKey === undefined || !isPassing || attempt >= REPEATS) throw error;
        const retryAfter = error instanceof ProblemError ? (error.retryAfter ?? 0) : 0;
        if (retryAfter > RETRY_AFTER_MAX) throw error;
        if (!(await sleep(pause(attempt, retryAfter * 1000), signal))) throw signal.reason;
      }
    }
  }

  /** Sends a call once. An answer that does not come is a connection that failed. */
  async #attempt<V>(request: Request, signal: AbortSignal): Promise<Answer<V>> {
    const abort = new AbortController();
    const stop = () => abort.abort(signal.reason);
    const watchdog = new Watchdog(() => abort.abort(SILENT));
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    try {
      Object.assign(request, { signal: abort.signal, ...watchedBy(watchdog, this.#timing.call) });
      const response = await this.#http.send(request);
      return checked<V>(await bodyOf(response, abort.signal));
    } catch (error) {
      if (abort.signal.reason !== SILENT) throw error;
      throw new ConnectionError(new Error(`No answer came within ${this.#timing.call} ms.`));
    } finally {
      watchdog.stop();
      signal.removeEventListener('abort', stop);
    }
  }

  /** Makes the source of live queries, for the present caller. */
  async #connect(): Promise<void> {
    if (this.#connecting || this.#source || this.#closed) return;
    this.#connecting = true;
    const sink = this.#subscriptions;
    let caller: string | undefined;
    // Tabs share only with tabs of the same caller. Without a token nobody knows whose this one is.
    for (let attempt = 0; this.#share && caller === undefined && !sink.isEmpty; attempt += 1) {
      sink.status('connecting');
      try {
        caller = await this.#http.tokens.caller();
      } catch (error) {
        if (sink.isEmpty) break;
        sink.fail(tokenFailed(error));
        sink.status('waiting');
        this.#rest = new AbortController();
        await sleep(pause(attempt), this.#rest.signal);
      }
    }
    this.#connecting = false;
    if (sink.isEmpty) return sink.status('idle');
    this.#source = (caller && this.#shared(caller)) || new Feed(this.#http, this.#timing, sink);
    sink.use(this.#source);
  }

  #shared(caller: string): SharedSource | undefined {
    try {
      return new SharedSource(`${this.#url} ${caller}`, this.#http, this.#timing, this.#subscriptions);
    } catch {
      // Firefox has no channels between tabs where it blocks cookies.
      return undefined;
    }
  }

  /** Another caller is signed in: nothing of the one before may be shown. */
  #restart(): void {
    this.#version = undefined;
    this.#source = undefined;
    this.#subscriptions.reset();
  }
}

/** Rejects when the signal aborts, until it is stopped. */
function aborted(signal: AbortSignal | undefined): { happens: Promise<never>; stop(): void } {
  let abort = () => {};
  const happens = new Promise<never>((_, reject) => {
    abort = () => reject(signal?.reason);
    if (signal?.aborted) abort();
    signal?.addEventListener('abort', abort, { once: true });
  });
  // Nobody may be waiting any more.
  happens.catch(() => {});
  return { happens, stop: () => signal?.removeEventListener('abort', abort) };
}

/** An answer of a call. A version that cannot be sent back would make all later calls fail. */
function checked<V>(body: unknown): Answer<V> {
  const version: unknown = (body as { version?: unknown } | null)?.version;
  if (typeof version === 'string' && /^[\x21-\x7e]{1,128}$/.test(version)) return body as Answer<V>;
  throw new ConnectionError(new Error('The answer is not one of a call: it has no version.'));
}

/** The JSON of an answer. An answer that is cut, or a proxy's page instead of it, is no answer. */
async function bodyOf(response: Response, signal: AbortSignal): Promise<unknown> {
  try {
    return await response.json();
  } catch (error) {
    throw signal.aborted ? error : new ConnectionError(error);
  }
}
