// The live queries of one tab: their listeners, and the optimistic changes above what the server has sent.

import type { Status } from './connection.js';
import type { Sink, Source } from './feed.js';
import { callerChanged, type ProblemError } from './problem.js';
import { canonical, errorOf, NOTHING, type State, type Wanted } from './state.js';
import { covers, replaces } from './version.js';

/** What a listener receives with a value. */
export interface Info {
  /** The version of the database state that the value comes from. */
  version: string | undefined;
  /** True while the value contains a change that the server has not confirmed. */
  optimistic: boolean;
}

/** A change of the value that a listener sees, until the server's own value contains it. */
export interface Layer {
  apply(value: unknown): unknown;
}

interface Listener {
  onValue(value: unknown, info: Info): void;
  onError: ((error: ProblemError) => void) | undefined;
}

interface Applied extends Layer {
  /** Set by the answer of the mutation. */
  answer: { version: string | undefined; frames: number } | undefined;
  timer?: ReturnType<typeof setTimeout>;
}

/** A query without listeners stays subscribed so long: components come back. */
const LINGER_MS = 1_000;
/** While answers of mutations are awaited, frames are held back so long at most: they may contain the change already. */
const HOLD_MS = 1_000;
/** After so long without a frame that contains the change, the client asks, and again after twice that, and so on. */
const SETTLE_MS = 2_000;
const SETTLE_MAX_MS = 30_000;

export class Subscriptions implements Sink {
  readonly #topics = new Map<string, Topic>();
  readonly #onStatus = new Set<{ call(status: Status): void }>();
  #status: Status = 'idle';
  #source: Source | undefined;

  /**
   * `connect` is called before the first subscription is made, and again after `reset`. `written` is the version of an
   * answer that this client has just had: what is subscribed to from now on must not be older.
   */
  constructor(
    private readonly connect: () => void,
    private readonly written: () => string | undefined = () => undefined,
  ) {}

  get source(): Source | undefined {
    return this.#source;
  }

  get isEmpty(): boolean {
    return this.#topics.size === 0;
  }

  /** Begins to use a source. */
  use(source: Source): void {
    this.#source = source;
    for (const topic of this.#topics.values()) source.want(topic.wanted, topic.newest, topic.notBefore);
  }

  /** Forgets all values, which belong to another caller, reports that to their listeners, and asks for them anew. */
  reset(): void {
    this.release();
    const shown: Topic[] = [];
    for (const [id, topic] of this.#topics) {
      if (topic.forget()) shown.push(topic);
      // It was kept for a view that might have come back.
      if (topic.isUnused) this.#topics.delete(id);
    }
    // Not kept as a problem: a listener that comes later has nothing of that caller.
    for (const topic of shown) topic.report(callerChanged());
    if (this.#topics.size > 0) this.connect();
    else this.status('idle');
  }

  /** Ends the use of the source. The values stay. */
  release(): void {
    this.#source?.close();
    this.#source = undefined;
  }

  close(): void {
    for (const topic of this.#topics.values()) topic.end();
    this.#topics.clear();
    this.release();
    this.status('idle');
  }

  listen(query: string, args: Record<string, unknown>, listener: Listener): () => void {
    const id = idOf(query, args);
    let topic = this.#topics.get(id);
    if (!topic) {
      // Later changes of the caller's object must not change the subscription.
      topic = new Topic({ id, query, args: JSON.parse(canonical(args)) }, () => this.#source);
      topic.notBefore = this.written();
      this.#topics.set(id, topic);
      if (this.#source) this.#source.want(topic.wanted, NOTHING, topic.notBefore);
      else this.connect();
    }
    const stop = topic.add(listener);
    return () => {
      stop();
      topic.lingerThen(LINGER_MS, () => {
        if (this.#topics.get(id) !== topic) return;
        this.#topics.delete(id);
        topic.forget();
        this.#source?.drop(id);
      });
    };
  }

  /** Applies a change to the present value of a query, if it is subscribed to. */
  apply(query: string, args: Record<string, unknown>, layer: Layer): AppliedLayer | undefined {
    return this.#topics.get(idOf(query, args))?.apply(layer);
  }

  /** Applies a change to all present values of a query that it changes, whatever their arguments. */
  applyToAll(query: string, change: (value: unknown, args: Record<string, unknown>) => unknown): AppliedLayer[] {
    const all = [...this.#topics.values()].filter(({ wanted }) => wanted.query === query);
    const layers = all.map((topic) => ({ topic, apply: (value: unknown) => change(value, topic.wanted.args) }));
    // Where nothing changes, no frame would come that ends the change. All are tried first: if one throws, none is applied.
    const changed = layers.filter(({ topic, apply }) => topic.isChangedBy(apply));
    return changed.map(({ topic, apply }) => topic.apply({ apply }));
  }

  onStatus(listener: (status: Status) => void): () => void {
    const entry = { call: listener };
    this.#onStatus.add(entry);
    safely(() => listener(this.#status));
    return () => this.#onStatus.delete(entry);
  }

  state(id: string, state: State): void {
    this.#topics.get(id)?.receive(state);
  }

  refused(id: string, error: ProblemError): void {
    this.#topics.get(id)?.fail(error);
  }

  /** There is no source yet, for a reason that concerns all listeners. */
  fail(error: ProblemError): void {
    for (const topic of this.#topics.values()) topic.fail(error);
  }

  status(status: Status): void {
    if (status === this.#status) return;
    this.#status = status;
    for (const { call } of [...this.#onStatus]) safely(() => call(status));
  }
}

/** An optimistic change of one query. */
export interface AppliedLayer {
  /** The mutation was committed at this version. */
  answered(version: string | undefined): void;
  /** The mutation failed. */
  drop(): void;
}

class Topic {
  readonly wanted: Wanted;
  readonly #source: () => Source | undefined;
  readonly #listeners = new Set<Listener>();
  /** The newest state of the server. */
  newest: State = NOTHING;
  /** The first state must not be older. */
  notBefore: string | undefined;
  /** The state that is shown below the layers. */
  #base: State = NOTHING;
  #layers: Applied[] = [];
  /** Counts states, for servers whose versions do not compare with those of answers. */
  #frames = 0;
  #shown: unknown;
  #hasShown = false;
  /** Whether `#shown` contains a change that the server has not confirmed. */
  #isOptimistic = false;
  /** A problem has passed: the value is shown again, even if it is equal. */
  #isDue = false;
  /** The problem that the listeners know. It is not repeated. */
  #problem: ProblemError | undefined;
  #holdTimer: ReturnType<typeof setTimeout> | undefined;
  #isHeldTooLong = false;
  #lingerTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(wanted: Wanted, source: () => Source | undefined) {
    this.wanted = wanted;
    this.#source = source;
  }

  add(listener: Listener): () => void {
    clearTimeout(this.#lingerTimer);
    this.#listeners.add(listener);
    // Who comes later gets the present value at once, but never before `live` has returned.
    queueMicrotask(() => {
      if (!this.#listeners.has(listener)) return;
      const error = this.#problem;
      if (this.#hasShown) this.#tell(listener);
      if (error) safely(() => listener.onError?.(error));
    });
    return () => this.#listeners.delete(listener);
  }

  get isUnused(): boolean {
    return this.#listeners.size === 0;
  }

  lingerThen(ms: number, end: () => void): void {
    if (!this.isUnused) return;
    clearTimeout(this.#lingerTimer);
    this.#lingerTimer = setTimeout(end, ms);
  }

  receive(state: State): void {
    if (!state.isOlder && !replaces(state.version, this.newest.version)) return;
    // What these changes made is not in the state that was restored, or is in it already.
    if (state.isOlder) for (const layer of [...this.#layers]) if (layer.answer) this.#remove(layer);
    const isEqual = state.hasValue && this.newest.hasValue && state.digest === this.newest.digest && !!state.digest;
    if (state.hasValue && this.#problem) {
      this.#problem = undefined;
      this.#isDue = true;
    }
    this.newest = isEqual ? { ...state, value: this.newest.value } : state;
    if (!errorOf(state)?.isPassing) this.notBefore = undefined;
    this.#frames += 1;
    if (!this.#isHolding()) this.#settle();
  }

  fail(error: ProblemError): void {
    if (this.#problem && JSON.stringify(error.document) === JSON.stringify(this.#problem.document)) return;
    this.#problem = error;
    this.report(error);
  }

  report(error: ProblemError): void {
    for (const listener of this.#present()) safely(() => listener.onError?.(error));
  }

  /** Whether it shows a value, and a change makes another one of it. */
  isChangedBy(apply: (value: unknown) => unknown): boolean {
    return this.#hasShown && apply(this.#shown) !== this.#shown;
  }

  apply(layer: Layer): AppliedLayer {
    const applied: Applied = { apply: layer.apply, answer: undefined };
    this.#layers.push(applied);
    this.#holdTimer ??= setTimeout(() => {
      this.#isHeldTooLong = true;
      this.#settle();
    }, HOLD_MS);
    this.#show();
    return {
      answered: (version) => {
        applied.answer = { version, frames: this.#frames };
        this.#ended();
        if (this.#layers.includes(applied)) this.#askFor(applied);
      },
      drop: () => {
        this.#remove(applied);
        this.#ended();
      },
    };
  }

  /** Calls no listener any more. */
  end(): void {
    this.#listeners.clear();
    this.forget();
  }

  /** Returns whether listeners may still show something. */
  forget(): boolean {
    const hadAnswer = this.#hasShown || this.#problem !== undefined;
    clearTimeout(this.#lingerTimer);
    for (const layer of [...this.#layers]) this.#remove(layer);
    this.newest = this.#base = NOTHING;
    this.notBefore = undefined;
    this.#hasShown = false;
    this.#shown = undefined;
    this.#problem = undefined;
    this.#ended();
    return hadAnswer;
  }

  #isHolding(): boolean {
    return !this.#isHeldTooLong && this.#layers.some((layer) => !layer.answer);
  }

  /** The answer of a mutation has arrived. */
  #ended(): void {
    if (this.#layers.every((layer) => layer.answer)) {
      clearTimeout(this.#holdTimer);
      this.#holdTimer = undefined;
      this.#isHeldTooLong = false;
    }
    if (!this.#isHolding()) this.#settle();
    else this.#show();
  }

  /** Takes over the newest state, and drops the layers that it contains. */
  #settle(): void {
    const isNews = this.newest !== this.#base;
    this.#base = this.newest;
    for (const layer of [...this.#layers]) {
      const { answer } = layer;
      if (!answer) continue;
      const settled = this.newest.settled ?? this.newest.version;
      const isLater = this.#frames > answer.frames && replaces(settled, answer.version);
      if (isLater || covers(settled, answer.version)) this.#remove(layer);
    }
    this.#show();
    const error = isNews ? errorOf(this.#base) : undefined;
    if (error) this.fail(error);
  }

  /** A change whose result is equal makes no frame; then the client asks for a state that contains it. */
  #askFor(layer: Applied, afterMs = SETTLE_MS): void {
    layer.timer = setTimeout(() => {
      this.#source()?.ask(this.wanted.id, layer.answer?.version);
      this.#askFor(layer, Math.min(2 * afterMs, SETTLE_MAX_MS));
    }, afterMs);
  }

  #remove(layer: Applied): void {
    clearTimeout(layer.timer);
    this.#layers = this.#layers.filter((other) => other !== layer);
  }

  #show(): void {
    if (!this.#base.hasValue) {
      this.#hasShown = false;
      return;
    }
    let value = this.#base.value;
    for (const layer of this.#layers) {
      try {
        value = layer.apply(value);
      } catch (error) {
        this.#remove(layer);
        safely(() => {
          throw error;
        });
      }
    }
    const isOptimistic = this.#layers.length > 0;
    // Numbers and texts stay equal when the server confirms them: listeners are called for that too.
    const isSame = value === this.#shown && isOptimistic === this.#isOptimistic;
    if (this.#hasShown && !this.#isDue && isSame) return;
    this.#isDue = false;
    this.#shown = value;
    this.#isOptimistic = isOptimistic;
    this.#hasShown = true;
    for (const listener of this.#present()) this.#tell(listener);
  }

  /** The listeners, without those that one before them has ended meanwhile. */
  *#present(): Generator<Listener> {
    for (const listener of [...this.#listeners]) if (this.#listeners.has(listener)) yield listener;
  }

  #tell(listener: Listener): void {
    const info = { version: this.#base.version, optimistic: this.#isOptimistic };
    safely(() => listener.onValue(this.#shown, info));
  }
}

export function idOf(query: string, args: Record<string, unknown>): string {
  return `${query} ${canonical(args)}`;
}

/** Runs a listener. Its error is reported as if nobody had caught it, and does not stop the others. */
function safely(run: () => void): void {
  try {
    run();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
