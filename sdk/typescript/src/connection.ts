// The connection to the server: one stream for all subscriptions, opened again when it ends; long polls where a proxy
// does not let streams through.

import { pause, pauseAfterBye, pauseOfStream, sleep } from './backoff.js';
import { type Http, type Request, TokenError } from './http.js';
import { ProblemError, tokenFailed } from './problem.js';
import { EventParser, type StreamEvent } from './sse.js';
import type { Frame } from './state.js';
import { Renewal, Watchdog } from './timers.js';

/** Times in milliseconds. */
export interface Timing {
  /** The server sends something at least this often. */
  heartbeat: number;
  /** A stream whose first bytes take longer is silent. */
  silence: number;
  /** After so long the client tries a stream again instead of long polls. */
  polling: number;
  /** A token source that takes longer has failed. */
  token: number;
  /** A call whose answer takes longer has failed. */
  call: number;
}

export const TIMING: Timing = { heartbeat: 15_000, silence: 5_000, polling: 300_000, token: 30_000, call: 30_000 };

/** `waiting`: for the next attempt, after a failure. `idle`: there are no subscriptions. */
export type Status = 'idle' | 'connecting' | 'live' | 'polling' | 'waiting';

/** A subscription as `POST /live` takes it. */
export interface Subscription {
  key: string;
  query: string;
  args: Record<string, unknown>;
  have?: string;
  rows: boolean;
}

/** What uses a connection. */
export interface Subscriber {
  /**
   * All present subscriptions, with what is held of them. A poll is not answered for a value that stays the same: where
   * an answer is needed, it asks for the value anew.
   */
  subscriptions(isPoll?: boolean): Subscription[];
  /** These are about to be sent: the next frame of each answers what it says is held. */
  sending(subscriptions: Subscription[]): void;
  frame(event: string, version: string | undefined, frame: Frame): void;
  /** The server refused the subscriptions with these keys, which are left out until `sync`. */
  refused(error: ProblemError, keys: string[]): void;
  /** A request failed, of the stream or of the subscriptions with these keys alone. A retry follows. */
  failed(error: ProblemError, keys?: string[]): void;
  status(status: Status): void;
}

/** No other subscriptions would be accepted: the method, the time, the host. */
const ABOUT_THE_REQUEST = [405, 408, 421];
/** A stream that ends sooner, without a `bye`, is short. */
const SHORT_MS = 1_000;
/** So many short or silent streams in a row: something in between does not let streams through. */
const SHORT_MAX = 3;
/** After a stream of this length the pauses between attempts begin small again. */
const STEADY_MS = 5_000;
/** Bytes of a URL that every proxy lets through. */
const URL_MAX = 4_000;
/** Between the beginnings of two polls with news. */
const POLL_PACE_MS = 250;
/** What streams and polls answer with. */
const EVENTS = 'text/event-stream';
/** A subscription that the server refused in a poll is asked for again after this. */
const LEFT_OUT_MS = 30_000;
/** A change with these statuses needs another stream: of another caller (401, 403), gone (404), elsewhere (409). */
const NEEDS_STREAM = [401, 403, 404, 409];

/** Why an attempt ended. `pauseMs`: what the server asked for. */
interface End {
  why: 'closed' | 'bye' | 'silent' | 'lost' | 'failed' | 'moved' | 'refused' | 'polled' | 'again';
  pauseMs?: number;
}

/** The subscriptions of a request: `kept` were accepted before, `tried` are some of those that are `missing`. */
interface Choice {
  kept: Subscription[];
  tried: Subscription[];
  missing: Subscription[];
}

/** A stream whose `hello` has arrived. */
interface OpenStream {
  id: string;
  secret: string;
  /** Aborts what is under way for this stream. */
  ended: AbortController;
  isChanging: boolean;
}

export class Connection {
  readonly #http: Http;
  readonly #subscriber: Subscriber;
  readonly #timing: Timing;
  #running = false;
  #closed = false;
  /** Ends the present attempt, or the pause after it. */
  #abort = new AbortController();
  /** The open stream; undefined until its `hello`. */
  #stream: OpenStream | undefined;
  /** The keys that the server has accepted: those of the stream, or of the last one. */
  #accepted = new Set<string>();
  /** So many others at most are in one request. It is halved when the server refuses them. */
  #most = Infinity;
  #isPausing = false;
  /** The server has begun to answer the present stream. */
  #hasBegun = false;
  #syncs = false;
  #isPolling = false;
  #pollingUntil = 0;
  /** The server has answered the last poll. */
  #hasPolled = false;
  /** Polls leave these keys out until then: the server refused them, and would answer each poll at once. */
  #leftOut = new Map<string, number>();
  #watchdog: Watchdog | undefined;

  constructor(http: Http, subscriber: Subscriber, timing: Timing) {
    this.#http = http;
    this.#subscriber = subscriber;
    this.#timing = timing;
  }

  /** The subscriptions have changed. Changes of one turn of the event loop are sent together. */
  sync(): void {
    if (this.#syncs || this.#closed) return;
    this.#syncs = true;
    soon(() => {
      this.#syncs = false;
      if (this.#closed) return;
      if (!this.#running) void this.#run();
      else if (this.#subscriber.subscriptions().length === 0) this.#abort.abort('empty');
      else if (!this.#isPolling) void this.#change();
      // A pause that the server asked for goes on.
      else if (!this.#isPausing) this.#abort.abort('again');
    });
  }

  /** The network or the user is back: ends a pause between two attempts, and a connection that is overdue. */
  hurry(): void {
    if (this.#isPausing) this.#abort.abort('hurry');
    else if (this.#isPolling) this.#abort.abort('again');
    else if (this.#watchdog?.isOverdue(1.25 * this.#timing.heartbeat)) this.#abort.abort('silent');
  }

  close(): void {
    this.#closed = true;
    this.#abort.abort('closed');
  }

  async #run(): Promise<void> {
    this.#running = true;
    let attempt = 0;
    let shorts = 0;
    while (!this.#closed && this.#subscriber.subscriptions().length > 0) {
      if (shorts >= SHORT_MAX) {
        this.#pollingUntil = performance.now() + this.#timing.polling;
        // The next stream after that has one chance.
        shorts = SHORT_MAX - 1;
      }
      this.#isPolling = performance.now() < this.#pollingUntil;
      const started = performance.now();
      this.#hasBegun = false;
      const end = this.#isPolling ? await this.#poll() : await this.#open();
      const lasted = performance.now() - started;
      if (!this.#isPolling) {
        if (end.why === 'silent' || (end.why === 'closed' && lasted < SHORT_MS)) shorts += 1;
        else if (end.why !== 'failed' && (end.why === 'bye' || lasted >= SHORT_MS)) shorts = 0;
      }
      // A server that has said nothing for so long has not worked: the pauses grow.
      const hasWorked = this.#hasBegun && lasted >= STEADY_MS;
      if (['polled', 'refused', 'moved'].includes(end.why) || hasWorked) attempt = 0;
      if (end.why === 'again' || end.why === 'polled') continue;
      // The wave of clients after a restart is spread by the `bye`; a first attempt that follows needs no more.
      const isWelcome = end.why === 'bye' && attempt === 0 && (lasted >= STEADY_MS || this.#isPolling);
      const ms = isWelcome ? pauseAfterBye(end.pauseMs ?? 0) : pauseOfStream(attempt, end.pauseMs);
      attempt += 1;
      if (this.#closed || this.#subscriber.subscriptions().length === 0) break;
      this.#subscriber.status('waiting');
      this.#abort = new AbortController();
      this.#isPausing = true;
      await sleep(ms, this.#abort.signal);
      this.#isPausing = false;
    }
    this.#running = false;
    if (this.#closed) return;
    this.#subscriber.status('idle');
    // A subscription may have come while the loop ended.
    if (this.#subscriber.subscriptions().length > 0) this.sync();
  }

  /** Opens a stream and reads it to its end. */
  async #open(): Promise<End> {
    const abort = (this.#abort = new AbortController());
    const watchdog = (this.#watchdog = new Watchdog(() => abort.abort('silent')));
    const renewal = new Renewal();
    let pauseMs: number | undefined;
    let isOpen = false;
    this.#subscriber.status('connecting');
    const choice = this.#choose(this.#subscriber.subscriptions());
    try {
      const subscriptions = [...choice.kept, ...choice.tried];
      // Something else than a stream counts as one that ended at once: after some of them, polls are tried.
      const headers = { Accept: EVENTS };
      const request = { method: 'POST', path: '/live', body: { subscriptions }, headers, signal: abort.signal };
      this.#subscriber.sending(subscriptions);
      const response = await this.#http.send({ ...request, ...watchedBy(watchdog, this.#timing.silence) });
      isOpen = true;
      this.#accept(subscriptions);
      renewal.plan(response.token, (old) => this.#renew(old));
      for await (const event of events(response, () => watchdog.hear(2.5 * this.#timing.heartbeat))) {
        if (event.event === 'bye') pauseMs = event.retry ?? 0;
        else this.#handle(event);
      }
    } catch (error) {
      if (!isOpen && !abort.signal.aborted) return this.#refused(error, choice);
    } finally {
      watchdog.stop();
      this.#watchdog = undefined;
      renewal.stop();
      this.#stream?.ended.abort();
      this.#stream = undefined;
    }
    if (pauseMs !== undefined) return { why: 'bye', pauseMs };
    if (!abort.signal.aborted) return { why: 'closed' };
    // A watchdog that ends a stream which had worked has found a dead connection, not a proxy that holds bytes back.
    if (abort.signal.reason === 'silent') return { why: watchdog.hadBytes ? 'lost' : 'silent' };
    if (abort.signal.reason !== 'moved') return { why: 'again' };
    // The next stream begins with what could not be added to this one.
    this.#most = Infinity;
    return { why: 'moved' };
  }

  /** One long poll. */
  async #poll(): Promise<End> {
    const abort = (this.#abort = new AbortController());
    for (const [key, until] of this.#leftOut) if (until <= performance.now()) this.#leftOut.delete(key);
    const choice = this.#choose(this.#subscriber.subscriptions(true).filter(({ key }) => !this.#leftOut.has(key)));
    // While others wait, the server must answer at once: it holds no poll for what the client does not have.
    const tried = choice.tried.length < choice.missing.length ? choice.tried.map(anew) : choice.tried;
    const subscriptions = [...choice.kept, ...tried];
    this.#subscriber.status(this.#hasPolled ? 'polling' : 'connecting');
    if (subscriptions.length === 0) {
      await sleep(LEFT_OUT_MS, abort.signal);
      return { why: 'again' };
    }
    const query = new URLSearchParams(subscriptions.map((subscription) => ['sub', JSON.stringify(subscription)]));
    const path = `/live/poll?${query}`;
    const started = performance.now();
    const watchdog = new Watchdog(() => abort.abort('silent'));
    // The server holds a poll for less than it lets a stream be silent.
    const silence = 2.5 * this.#timing.heartbeat;
    let pauseMs = 0;
    let hasNews = false;
    try {
      // What does not fit into a URL goes into a body.
      const request =
        path.length <= URL_MAX ? { method: 'GET', path } : { method: 'POST', path: '/live/poll', body: { subscriptions } };
      this.#subscriber.sending(subscriptions);
      const response = await this.#http.send({ ...request, accept: EVENTS, signal: abort.signal, ...watchedBy(watchdog, silence) });
      this.#hasPolled = true;
      this.#subscriber.status('polling');
      this.#accept(subscriptions);
      for await (const event of events(response, () => watchdog.set(silence))) {
        if (event.event === 'bye') pauseMs = event.retry ?? 0;
        else this.#handle(event);
        hasNews ||= ['value', 'rows', 'error'].includes(event.event);
      }
    } catch (error) {
      if (abort.signal.aborted && abort.signal.reason !== 'silent') return { why: 'again' };
      this.#hasPolled = false;
      // Polls get through no better than streams did: the network or the server is away, and a stream finds out sooner.
      if (!(error instanceof ProblemError)) this.#pollingUntil = 0;
      return abort.signal.aborted ? { why: 'lost' } : this.#refused(error, choice);
    } finally {
      watchdog.stop();
    }
    if (pauseMs > 0) return { why: 'bye', pauseMs };
    // Of a query that changes all the time, each poll would be answered at once: the newest state now and then is enough.
    if (hasNews) await sleep(POLL_PACE_MS - (performance.now() - started), abort.signal);
    // An answer at once without news must not become a fast loop.
    return hasNews || performance.now() - started >= SHORT_MS ? { why: 'polled' } : { why: 'failed', pauseMs };
  }

  #choose(wanted: Subscription[]): Choice {
    const kept = wanted.filter(({ key }) => this.#accepted.has(key));
    const missing = wanted.filter(({ key }) => !this.#accepted.has(key));
    return { kept, tried: missing.slice(0, this.#most), missing };
  }

  #accept(subscriptions: Subscription[]): void {
    this.#accepted = new Set(subscriptions.map(({ key }) => key));
    this.#most *= 2;
  }

  /** A stream or a poll was refused. What the server refuses for some subscriptions, it may accept for others. */
  #refused(error: unknown, choice: Choice): End {
    if (!isAboutSubscriptions(error)) return this.#failed(error);
    const { kept, tried } = choice;
    // A limit without room for a single subscription is not about it.
    if (error.status === 429 && kept.length + tried.length <= 1) return this.#failed(error);
    if (tried.length > 0) return { why: this.#divide(error, choice) ? 'refused' : 'again' };
    this.#accepted.clear();
    this.#most = Math.ceil(kept.length / 2);
    return { why: 'failed', pauseMs: (error.retryAfter ?? 0) * 1000 };
  }

  /**
   * Finds by halves what the server does not accept, which is left out from then on. Returns whether it was found; a
   * short pause must follow then, so that many of them are no fast loop.
   */
  #divide(error: ProblemError, { tried, missing }: Choice): boolean {
    this.#most = Math.ceil(tried.length / 2);
    if (tried.length > 1) return false;
    // Where there is no room for one, there is none for others.
    const refused = error.status === 429 ? missing : tried;
    this.#subscriber.refused(error, refused.map(({ key }) => key));
    return true;
  }

  /** A request of the stream failed, or only one for the subscriptions with these keys: the others go on. */
  #failed(error: unknown, keys?: string[]): End {
    if (error instanceof TokenError) this.#subscriber.failed(tokenFailed(error.cause), keys);
    // A token with characters that no header may have.
    else if (error instanceof TypeError) this.#subscriber.failed(tokenFailed(error), keys);
    if (!(error instanceof ProblemError)) return { why: 'failed' };
    // A limit stays until the application does something about it.
    if (!error.isPassing || error.status === 429) this.#subscriber.failed(error, keys);
    return { why: 'failed', pauseMs: (error.retryAfter ?? 0) * 1000 };
  }

  #handle(event: StreamEvent): void {
    let data: Frame & { stream?: string; secret?: string };
    try {
      data = JSON.parse(event.data);
    } catch {
      return;
    }
    if (event.event === 'hello') {
      this.#hasBegun = true;
      const { stream: id, secret } = data ?? {};
      if (id && secret) this.#stream = { id, secret, ended: new AbortController(), isChanging: false };
      this.#subscriber.status(this.#isPolling ? 'polling' : 'live');
      void this.#change();
    } else if (Array.isArray(data?.keys)) {
      // Without a digest there is nothing that the next poll could say it holds.
      const isRefused = this.#isPolling && event.event === 'error' && data.digest === undefined;
      if (isRefused) for (const key of data.keys) this.#leftOut.set(key, performance.now() + LEFT_OUT_MS);
      this.#subscriber.frame(event.event, event.id ?? data.version, data);
    }
  }

  /** Makes the stream's subscriptions what they should be, one request at a time. */
  async #change(): Promise<void> {
    const stream = this.#stream;
    if (!stream || stream.isChanging) return;
    stream.isChanging = true;
    let failures = 0;
    while (stream === this.#stream) {
      const choice = this.#choose(this.#subscriber.subscriptions());
      const { kept, tried } = choice;
      const keys = new Set(kept.map(({ key }) => key));
      const remove = [...this.#accepted].filter((key) => !keys.has(key));
      if (choice.missing.length === 0) this.#most = Infinity;
      if (tried.length === 0 && remove.length === 0) break;
      let pauseMs = 0;
      try {
        await this.#send(stream, tried, remove);
        this.#accept([...kept, ...tried]);
        failures = 0;
      } catch (error) {
        if (stream !== this.#stream) break;
        if (isAboutSubscriptions(error) && tried.length > 0) {
          if (this.#divide(error, choice)) pauseMs = pause(0);
        } else {
          const end = this.#failed(error, tried.map(({ key }) => key));
          pauseMs = pause(failures, end.pauseMs);
          failures += 1;
        }
      }
      if (pauseMs > 0) await sleep(pauseMs, stream.ended.signal);
    }
    stream.isChanging = false;
  }

  /** Sends a change of the stream. The stream goes on if that fails, unless the answer says that it is of no use. */
  async #send(stream: OpenStream, add: Subscription[], remove: string[]): Promise<void> {
    const abort = new AbortController();
    const stop = () => abort.abort('ended');
    stream.ended.signal.addEventListener('abort', stop, { once: true });
    const watchdog = new Watchdog(() => abort.abort('silent'));
    const watched = watchedBy(watchdog, this.#timing.silence);
    try {
      const body = { secret: stream.secret, add, remove };
      this.#subscriber.sending(add);
      await this.#http.send({ method: 'POST', path: `/live/${stream.id}`, body, signal: abort.signal, ...watched });
    } catch (error) {
      const needsStream = error instanceof ProblemError && NEEDS_STREAM.includes(error.status);
      if (needsStream && this.#stream === stream) {
        this.#stream = undefined;
        stream.ended.abort();
        this.#abort.abort('moved');
      }
      throw error;
    } finally {
      watchdog.stop();
      stream.ended.signal.removeEventListener('abort', stop);
    }
  }

  /** Sends a new token on the running stream, which therefore outlives the old one. Returns that token. */
  async #renew(old: string | undefined): Promise<string | undefined> {
    const stream = this.#stream;
    let token = await this.#http.tokens.get();
    if (token === old) token = await this.#http.tokens.refresh(old);
    if (token !== old && stream && stream === this.#stream) await this.#send(stream, [], []);
    return token;
  }
}

/** Ends the present turn of the event loop first. The timers of a hidden tab, which may lead others, fire once a second. */
function soon(run: () => void): void {
  if (typeof document !== 'undefined' && document.hidden) queueMicrotask(run);
  else setTimeout(run);
}

/** The watchdog of a request. The time of the token source, which has a limit of its own, does not count as silence. */
export function watchedBy(watchdog: Watchdog, silence: number): Pick<Request, 'onSend' | 'onRenew'> {
  return { onSend: () => watchdog.set(silence), onRenew: () => watchdog.stop() };
}

/** Whether a request was refused for the subscriptions in it, so that others may be accepted. */
function isAboutSubscriptions(error: unknown): error is ProblemError {
  if (!(error instanceof ProblemError) || NEEDS_STREAM.includes(error.status)) return false;
  return error.status >= 400 && error.status < 500 && !ABOUT_THE_REQUEST.includes(error.status);
}

/** The subscription with a digest that no result has, so that the server sends the whole value at once. */
function anew(subscription: Subscription): Subscription {
  const have = subscription.have?.replace(/\/[^-].*/, '/+');
  return have === undefined ? subscription : { ...subscription, have };
}

async function* events(response: Response, onBytes: () => void): AsyncGenerator<StreamEvent> {
  if (!response.body) return;
  const reader = response.body.getReader();
  const parser = new EventParser();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onBytes();
      yield* parser.push(value);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
