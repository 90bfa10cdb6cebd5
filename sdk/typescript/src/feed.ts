// The live queries of one connection: their states, kept up to date from the server's frames.

import { pause } from './backoff.js';
import { Connection, type Status, type Subscriber, type Subscription, type Timing } from './connection.js';
import type { Http } from './http.js';
import { ProblemError } from './problem.js';
import { after, have, isBase, NOTHING, type Frame, type State, type Wanted } from './state.js';
import { covers } from './version.js';

/** Where a tab gets its states from: a connection of its own, or that of another tab. */
export interface Source {
  /** Begins to deliver states, none of which is older than `notBefore`. `held` is what the tab holds already. */
  want(wanted: Wanted, held: State, notBefore?: string): void;
  drop(id: string): void;
  /** Asks for a state that is not older than `version`. */
  ask(id: string, version: string | undefined): void;
  close(): void;
}

/** What receives the states. */
export interface Sink {
  state(id: string, state: State): void;
  refused(id: string, error: ProblemError): void;
  status(status: Status): void;
}

interface Entry {
  wanted: Wanted;
  /** The subscription's name on the stream. A new name makes the stream subscribe anew. */
  key: string;
  state: State;
  /** The next subscription asks for a state that is not older than this. */
  notBefore: string | undefined;
  /** The version that was asked for last, and whether it was so before too. */
  asked: string | undefined;
  isAskedAgain: boolean;
  /** The server was told what is held, and has not answered: what it sends next is the present state, also if it is older. */
  isAwaited: boolean;
  /** Whether the server may send the rows that changed. */
  takesRows: boolean;
  /** Attempts after problems that pass. */
  attempts: number;
  /** The server refused the subscription: it is left out until the timer fires. */
  isParked: boolean;
  /** With which status. */
  refusal?: number;
  timer: ReturnType<typeof setTimeout> | undefined;
}

/** Whether a state says something: a value or a problem. */
function isAnswer(state: State): boolean {
  return state.hasValue || state.problem !== undefined;
}

function isSame(state: State, held: State): boolean {
  return state.version === held.version && state.digest === held.digest && state.hasValue === held.hasValue;
}

export class Feed implements Source, Subscriber {
  readonly #sink: Sink;
  readonly #connection: Connection;
  readonly #entries = new Map<string, Entry>();
  readonly #byKey = new Map<string, Entry>();
  #keys = 0;

  constructor(http: Http, timing: Timing, sink: Sink) {
    this.#sink = sink;
    this.#connection = new Connection(http, this, timing);
  }

  want(wanted: Wanted, held: State, notBefore?: string): void {
    const known = this.#entries.get(wanted.id);
    if (known) {
      const version = known.state.settled ?? known.state.version;
      if (notBefore !== undefined && !covers(version, notBefore)) return this.ask(wanted.id, notBefore);
      // A tab may hold more than this connection, which has just begun.
      if (!isAnswer(known.state) && isAnswer(held)) known.state = held;
      // What the tab shows already is no news: it would take back a problem that lasts.
      if (isAnswer(known.state) && !isSame(known.state, held)) this.#sink.state(wanted.id, known.state);
      return;
    }
    const begin = { key: '', asked: undefined, isAskedAgain: false, isAwaited: false, takesRows: true, attempts: 0, isParked: false, timer: undefined };
    const entry: Entry = { wanted, state: held, notBefore, ...begin };
    this.#entries.set(wanted.id, entry);
    this.#subscribe(entry);
  }

  drop(id: string): void {
    const entry = this.#entries.get(id);
    if (!entry) return;
    clearTimeout(entry.timer);
    this.#entries.delete(id);
    this.#byKey.delete(entry.key);
    this.#connection.sync();
    // A limit may have room for another one now.
    const parked = [...this.#entries.values()].find(({ isParked, refusal }) => isParked && refusal === 429);
    if (parked) this.#subscribe(parked);
  }

  ask(id: string, version: string | undefined): void {
    const entry = this.#entries.get(id);
    if (!entry) return;
    entry.isAskedAgain = version !== undefined && entry.asked === version;
    entry.asked = version;
    // Another tab may have asked for a newer one meanwhile.
    if (!covers(entry.notBefore, version)) entry.notBefore = version;
    if (!entry.isParked) this.#subscribe(entry);
  }

  hurry(): void {
    this.#connection.hurry();
  }

  close(): void {
    for (const entry of this.#entries.values()) clearTimeout(entry.timer);
    this.#entries.clear();
    this.#byKey.clear();
    this.#connection.close();
  }

  #subscribe(entry: Entry): void {
    clearTimeout(entry.timer);
    entry.timer = undefined;
    entry.isParked = false;
    this.#byKey.delete(entry.key);
    entry.key = `k${(this.#keys += 1)}`;
    this.#byKey.set(entry.key, entry);
    this.#connection.sync();
  }

  subscriptions(isPoll = false): Subscription[] {
    const entries = [...this.#entries.values()].filter(({ isParked }) => !isParked);
    // Those that may be refused again come last, so that others need not wait for them.
    entries.sort((one, other) => one.attempts - other.attempts);
    return entries.map(({ key, wanted, state, notBefore, isAskedAgain, takesRows }) => {
      // A stream says `same` for an equal result, also of a state that may lack the newest commits (PostgreSQL). Who asks
      // for the same version again needs a newer run.
      const isAnew = notBefore !== undefined && (isPoll || isAskedAgain);
      const version = covers(state.settled ?? state.version, notBefore) ? state.version : (notBefore ?? state.version);
      const held = have(isAnew ? { ...state, digest: undefined } : state, version);
      return { key, query: wanted.query, args: wanted.args, ...(held && { have: held }), rows: takesRows };
    });
  }

  sending(subscriptions: Subscription[]): void {
    for (const { key, have } of subscriptions) {
      const entry = this.#byKey.get(key);
      if (entry) entry.isAwaited = have !== undefined;
    }
  }

  frame(event: string, version: string | undefined, frame: Frame): void {
    for (const key of frame.keys) {
      const entry = this.#byKey.get(key);
      if (!entry) continue;
      // A refusal has no version. It is no older state for a tab that waits for a newer one.
      const isOfAsked = event === 'error' && version === undefined && !covers(entry.state.version, entry.notBefore);
      const state = after(entry.state, event, isOfAsked ? entry.notBefore : version, frame, entry.isAwaited);
      entry.isAwaited = false;
      if (state === undefined) {
        // Row changes that do not fit what is held: the next answer must be the whole value.
        // If the base was right, the client does not have the server's row keys, and later changes would not fit either.
        if (isBase(entry.state, frame)) entry.takesRows = false;
        entry.state = { ...NOTHING, version: entry.state.version };
        this.#subscribe(entry);
        continue;
      }
      entry.state = state;
      const isPassing = event === 'error' && new ProblemError(frame.problem ?? {}).isPassing;
      // What is asked for again after a problem must not be older either.
      if (!isPassing) entry.notBefore = undefined;
      if (isPassing) this.#subscribeAfter([entry], pause(entry.attempts + 2));
      else if (event !== 'error') entry.attempts = 0;
      this.#sink.state(entry.wanted.id, state);
    }
  }

  /** Asks again after a problem that passes, such as a limit. */
  #subscribeAfter(entries: Entry[], ms: number): void {
    for (const entry of entries) {
      entry.attempts += 1;
      clearTimeout(entry.timer);
      entry.timer = setTimeout(() => this.#subscribe(entry), ms);
    }
  }

  failed(error: ProblemError, keys?: string[]): void {
    for (const entry of this.#entries.values()) {
      if (!keys || keys.includes(entry.key)) this.#sink.refused(entry.wanted.id, error);
    }
  }

  refused(error: ProblemError, keys: string[]): void {
    this.failed(error, keys);
    const parked = keys.flatMap((key) => this.#byKey.get(key) ?? []);
    for (const entry of parked) Object.assign(entry, { isParked: true, refusal: error.status });
    // They are asked for together, so that many cost as many requests as one.
    const attempts = Math.max(0, ...parked.map((entry) => entry.attempts));
    const slow = error.isPassing ? 2 : 7;
    this.#subscribeAfter(parked, pause(attempts + slow, (error.retryAfter ?? 0) * 1000));
  }

  status(status: Status): void {
    // Subscriptions that were refused are asked for again.
    this.#sink.status(status === 'idle' && this.#entries.size > 0 ? 'waiting' : status);
  }
}
