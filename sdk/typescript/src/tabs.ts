// One stream per browser. The tabs of one origin whose caller is the same elect a leader by a Web Lock; the leader holds
// the connection and sends states to the others over a BroadcastChannel. When the leader closes, hangs or has no token
// that the server accepts, another tab takes over and resumes from what the tabs hold. While all of them lack one they
// try in turn, with pauses that double, and each reports its own problem when it has tried twice.

import { pause, sleep } from './backoff.js';
import type { Status, Timing } from './connection.js';
import { Feed, type Sink, type Source } from './feed.js';
import type { Http } from './http.js';
import { ProblemError, type ProblemDocument } from './problem.js';
import { errorOf, type State, type Wanted } from './state.js';
import { replaces } from './version.js';

/** Messages of followers name the tab, messages of the leader do not. */
type Message =
  | { kind: 'want'; tab: string; wanted: Wanted; held: State; notBefore?: string }
  | { kind: 'drop'; tab: string; id: string }
  | { kind: 'ask'; tab: string; id: string; version: string | undefined }
  | { kind: 'ping'; tab: string }
  | { kind: 'hurry'; tab: string }
  | { kind: 'leader' }
  | { kind: 'state'; id: string; state: State }
  | { kind: 'refused'; id: string; document: ProblemDocument; status: number }
  | { kind: 'status'; status: Status };

/** A visible follower asks whether the leader is there so often, and takes over when it does not answer. */
const PING_MS = 5_000;
/** A leader that a visible tab hurries has so much time to answer. */
const HURRY_MS = 2_000;
/** Of the messages. Tabs with another one, from before a deployment, have a stream of their own. */
const PROTOCOL = 2;

/** Whether this is a browser's tab that can share. Locks exist in secure contexts only. */
export function canShare(): boolean {
  return typeof document !== 'undefined' && typeof BroadcastChannel !== 'undefined' && !!globalThis.navigator?.locks;
}

interface Held {
  wanted: Wanted;
  state: State;
  /** Until there is a state: it must not be older. */
  notBefore: string | undefined;
}

export class SharedSource implements Source {
  readonly #tab = Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(36)).join('-');
  readonly #name: string;
  readonly #channel: BroadcastChannel;
  readonly #sink: Sink;
  readonly #makeFeed: (sink: Sink) => Feed;
  /** What this tab wants, with the newest state. */
  readonly #wanted = new Map<string, Held>();
  /** Leader only. */
  #feed: Feed | undefined;
  /** Leader only: which tabs want what. */
  readonly #tabs = new Map<string, Set<string>>();
  #leading = new AbortController();
  /** Leader only: the connection's. */
  #status: Status = 'idle';
  /** Leader only: its token failed or was refused, and no state has come since. */
  #refusal: ProblemError | undefined;
  /** So often this tab left the lead for that, since a tab last had a connection. */
  #refusals = 0;
  /** Ends the pause before this tab stands again. */
  #rest = new AbortController();
  #closing = new AbortController();
  #heard = 0;
  /** When the leader last said something, by the page's clock. */
  #heardAt = -Infinity;
  #pings = 0;
  #timer: ReturnType<typeof setInterval> | undefined;
  #release: (() => void) | undefined;
  /** This tab's own lock is held: a leader may watch it. */
  #isHere = false;
  /** The browser gives no locks here: this tab has a connection of its own. */
  #isAlone = false;

  constructor(name: string, http: Http, timing: Timing, sink: Sink) {
    this.#name = `sarsen-live:${PROTOCOL}:${name}`;
    this.#sink = sink;
    this.#makeFeed = (feedSink) => new Feed(http, timing, feedSink);
    this.#channel = new BroadcastChannel(this.#name);
    this.#channel.onmessage = (event: MessageEvent<Message>) => this.#receive(event.data);
    void this.#join();
  }

  want(wanted: Wanted, held: State, notBefore?: string): void {
    this.#wanted.set(wanted.id, { wanted, state: held, notBefore });
    if (this.#feed) this.#add(this.#tab, wanted, held, notBefore);
    else if (this.#isHere) this.#post({ kind: 'want', tab: this.#tab, wanted, held, notBefore });
  }

  drop(id: string): void {
    this.#wanted.delete(id);
    if (this.#feed) this.#remove(this.#tab, id);
    else this.#post({ kind: 'drop', tab: this.#tab, id });
  }

  ask(id: string, version: string | undefined): void {
    if (this.#feed) this.#feed.ask(id, version);
    else this.#post({ kind: 'ask', tab: this.#tab, id, version });
  }

  hurry(): void {
    this.#rest.abort();
    if (this.#feed) this.#feed.hurry();
    else if (this.#isHere) this.#hurryLeader();
  }

  /** A leader that does not answer is suspended, as on phones: the tab that the user looks at does not wait for it. */
  #hurryLeader(): void {
    const askedAt = performance.now();
    this.#post({ kind: 'hurry', tab: this.#tab });
    setTimeout(() => {
      const isWaiting = !this.#feed && !this.#closing.signal.aborted && this.#wanted.size > 0;
      if (isWaiting && this.#heardAt < askedAt && document.visibilityState === 'visible') void this.#steal();
    }, HURRY_MS);
  }

  close(): void {
    if (this.#closing.signal.aborted) return;
    for (const id of this.#wanted.keys()) if (!this.#feed) this.#post({ kind: 'drop', tab: this.#tab, id });
    this.#closing.abort();
    this.#rest.abort();
    clearInterval(this.#timer);
    this.#resign();
    this.#channel.close();
  }

  /** Waits for the lock of this tab, then for the leader's. */
  async #join(): Promise<void> {
    const signal = this.#closing.signal;
    try {
      await this.#holdOwnLock(signal);
      this.#isHere = true;
      this.#announce();
      this.#timer = setInterval(() => this.#watch(), PING_MS);
      while (!signal.aborted) {
        await this.#stand(signal);
        this.#rest = new AbortController();
        if (this.#refusals > 0 && !signal.aborted) await sleep(pause(this.#refusals + 1), this.#rest.signal);
      }
    } catch {
      // There are no locks in sandboxed frames and where storage is blocked.
      if (!signal.aborted) this.#goAlone();
    }
  }

  /**
   * Resolves when the lock of this tab is held, by whose end the leader notices that the tab is gone. A leader that
   * asked for it earlier would take a tab that has just come for one that has gone.
   */
  #holdOwnLock(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const hold = () => {
        resolve();
        return new Promise<void>((end) => signal.addEventListener('abort', () => end(), { once: true }));
      };
      navigator.locks.request(this.#lockOf(this.#tab), { signal }, hold).catch(reject);
    });
  }

  /** Stands for election once, and leads until that ends. */
  async #stand(signal: AbortSignal): Promise<void> {
    try {
      await navigator.locks.request(this.#name, { signal }, () => this.#lead());
    } catch (error) {
      // Another tab has stolen the lock because this one did not answer, or this source was closed.
      this.#resign();
      if (!(error instanceof DOMException && error.name === 'AbortError')) throw error;
    }
  }

  #goAlone(): void {
    this.#isAlone = true;
    this.#channel.close();
    clearInterval(this.#timer);
    void this.#lead();
  }

  #lockOf(tab: string): string {
    return `${this.#name}:${tab}`;
  }

  /** Leads until another tab takes over or the source is closed. */
  #lead(): Promise<void> {
    if (this.#closing.signal.aborted) return Promise.resolve();
    // A tab that steals the lock may have stood for election too.
    this.#feed?.close();
    this.#release?.();
    this.#leading.abort();
    this.#leading = new AbortController();
    this.#tabs.clear();
    this.#status = 'connecting';
    this.#refusal = undefined;
    this.#feed = this.#makeFeed({
      state: (id, state) => {
        this.#refusal = undefined;
        this.#deliver(id, state);
        if (this.#isWantedElsewhere(id)) this.#post({ kind: 'state', id, state });
      },
      refused: (id, error) => {
        if (error.code === 'token_failed' || error.status === 401) return this.#failToken(id, error);
        this.#tellRefused(id, error);
      },
      status: (status) => this.#tellStatus(status),
    });
    for (const { wanted, state, notBefore } of this.#wanted.values()) this.#add(this.#tab, wanted, state, notBefore);
    this.#post({ kind: 'leader' });
    return new Promise((resolve) => (this.#release = resolve));
  }

  #tellRefused(id: string, error: ProblemError): void {
    this.#sink.refused(id, error);
    if (this.#isWantedElsewhere(id)) this.#post({ kind: 'refused', id, document: error.document, status: error.status });
  }

  /** There is no token, or the server refused it. If other tabs wait for values, one of them may have one that works. */
  #failToken(id: string, error: ProblemError): void {
    // Only a change of the stream failed, which goes on.
    if (this.#status === 'live') return this.#tellRefused(id, error);
    this.#refusal = error;
    if ([...this.#tabs.keys()].some((tab) => tab !== this.#tab)) this.#handOver(error);
    else this.#sink.refused(id, error);
  }

  /**
   * Leaves the lead to a tab whose token works; this tab stands again after a pause. If there is no such tab, this one
   * leads again and fails again: only then its listeners get the problem.
   */
  #handOver(error: ProblemError): void {
    this.#refusals += 1;
    this.#tellStatus('waiting');
    this.#resign();
    if (this.#refusals > 1) for (const id of [...this.#wanted.keys()]) this.#sink.refused(id, error);
  }

  #tellStatus(status: Status): void {
    this.#status = status;
    this.#showStatus(status);
    this.#post({ kind: 'status', status });
  }

  #showStatus(status: Status): void {
    // The leader has a token that works.
    if (status === 'live' || status === 'polling') this.#refusals = 0;
    this.#sink.status(status);
  }

  #isWantedElsewhere(id: string): boolean {
    return [...this.#tabs].some(([tab, ids]) => tab !== this.#tab && ids.has(id));
  }

  #resign(): void {
    this.#leading.abort();
    this.#feed?.close();
    this.#feed = undefined;
    this.#tabs.clear();
    this.#release?.();
    this.#release = undefined;
    if (this.#closing.signal.aborted) return;
    // The tab that leads now needs this tab's subscriptions.
    this.#announce();
  }

  #announce(): void {
    if (!this.#isHere || this.#feed) return;
    for (const { wanted, state, notBefore } of this.#wanted.values()) {
      this.#post({ kind: 'want', tab: this.#tab, wanted, held: state, notBefore });
    }
  }

  #receive(message: Message): void {
    if ('tab' in message) return this.#serve(message);
    if (this.#feed) return;
    this.#heard += 1;
    this.#heardAt = performance.now();
    if (message.kind === 'leader') this.#announce();
    else if (message.kind === 'status') this.#showStatus(message.status);
    else if (!this.#wanted.has(message.id)) return;
    else if (message.kind === 'state') this.#deliver(message.id, message.state);
    else this.#sink.refused(message.id, new ProblemError(message.document, message.status));
  }

  /** A follower's message. */
  #serve(message: Message & { tab: string }): void {
    if (!this.#feed) return;
    if (message.kind === 'want' && this.#refusal) this.#handOver(this.#refusal);
    else if (message.kind === 'want') this.#add(message.tab, message.wanted, message.held, message.notBefore);
    else if (message.kind === 'drop') this.#remove(message.tab, message.id);
    else if (message.kind === 'ask') this.#feed.ask(message.id, message.version);
    else {
      if (message.kind === 'hurry') this.#feed.hurry();
      this.#post({ kind: 'status', status: this.#status });
    }
  }

  #deliver(id: string, state: State): void {
    const held = this.#wanted.get(id);
    // The leader may have sent a state before it read what this tab asks for.
    if (!held || (!state.isOlder && !replaces(state.version, held.notBefore))) return;
    Object.assign(held, { state, notBefore: errorOf(state)?.isPassing ? held.notBefore : undefined });
    this.#sink.state(id, state);
  }

  #add(tab: string, wanted: Wanted, held: State, notBefore?: string): void {
    let ids = this.#tabs.get(tab);
    if (!ids) {
      ids = new Set();
      this.#tabs.set(tab, ids);
      if (tab !== this.#tab) {
        this.#watchTab(tab);
        this.#post({ kind: 'status', status: this.#status });
      }
    }
    ids.add(wanted.id);
    this.#feed?.want(wanted, held, notBefore);
  }

  #remove(tab: string, id: string): void {
    this.#tabs.get(tab)?.delete(id);
    for (const ids of this.#tabs.values()) if (ids.has(id)) return;
    this.#feed?.drop(id);
  }

  /** Drops what a tab wants when its lock becomes free: it was closed. */
  #watchTab(tab: string): void {
    const gone = () => {
      const ids = this.#tabs.get(tab) ?? [];
      for (const id of [...ids]) this.#remove(tab, id);
      this.#tabs.delete(tab);
    };
    navigator.locks.request(this.#lockOf(tab), { signal: this.#leading.signal }, gone).catch(() => {});
  }

  /** A follower that is visible takes over from a leader that does not answer. */
  #watch(): void {
    if (this.#feed || document.visibilityState !== 'visible' || this.#wanted.size === 0) {
      this.#pings = 0;
      return;
    }
    if (this.#pings > 0 && this.#heard === 0) {
      this.#pings += 1;
      if (this.#pings > 2) {
        this.#pings = 0;
        void this.#steal();
      }
    } else {
      this.#pings = 1;
    }
    this.#heard = 0;
    this.#post({ kind: 'ping', tab: this.#tab });
  }

  async #steal(): Promise<void> {
    try {
      await navigator.locks.request(this.#name, { steal: true }, () => this.#lead());
    } catch {
      this.#resign();
    }
  }

  #post(message: Message): void {
    // What ends with the source may still have something to say.
    if (!this.#closing.signal.aborted && !this.#isAlone) this.#channel.postMessage(message);
  }
}
