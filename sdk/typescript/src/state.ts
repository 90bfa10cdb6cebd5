// What a client holds of a live query, and how the server's frames change it.

import { ProblemError, type ProblemDocument } from './problem.js';
import { replaces } from './version.js';

/** A live query with its arguments. `id` is equal for equal queries and arguments. */
export interface Wanted {
  id: string;
  query: string;
  args: Record<string, unknown>;
}

/** The newest known result of a live query: a value or a problem. */
export interface State {
  version: string | undefined;
  digest: string | undefined;
  /** The state surely contains what was committed up to this version, where that is older than `version` (PostgreSQL). */
  settled?: string;
  /** Absent until the first value, and after a problem. */
  value?: unknown;
  hasValue: boolean;
  problem?: { document: ProblemDocument; status: number };
  /** The server answered a newer version with this state: the database was restored, and it is the present one. */
  isOlder?: boolean;
}

export const NOTHING: State = { version: undefined, digest: undefined, hasValue: false };

/** The data of the events `value`, `rows`, `same` and `error`. */
export interface Frame {
  keys: string[];
  version?: string;
  settled?: string;
  digest?: string;
  value?: unknown;
  base?: string;
  by?: string;
  set?: [string, unknown][];
  gone?: string[];
  order?: string[];
  problem?: ProblemDocument;
}

/**
 * The state after an event; `undefined` if the client must ask for the whole value. The same object: nothing changed. An
 * event that `answers` what the client said it holds is the present state, also if it is older.
 */
export function after(
  state: State,
  event: string,
  version: string | undefined,
  frame: Frame,
  answers = false,
): State | undefined {
  const isOlder = !replaces(version, state.version);
  if (isOlder && !answers) return state;
  const next = following(state, event, version, frame);
  return next && next !== state && isOlder ? { ...next, isOlder } : next;
}

function following(held: State, event: string, version: string | undefined, frame: Frame): State | undefined {
  const { isOlder: _, ...state } = held;
  switch (event) {
    case 'value':
      return { version, settled: frame.settled, digest: frame.digest, value: frame.value, hasValue: true };
    case 'same':
      return { ...state, version: version ?? state.version, settled: frame.settled };
    case 'error':
      return { version: version ?? state.version, digest: frame.digest, hasValue: false, problem: problemOf(frame) };
    case 'rows': {
      if (!isBase(state, frame)) return undefined;
      const value = merge(state.value, frame);
      return value && { version, settled: frame.settled, digest: frame.digest, value, hasValue: true };
    }
    default:
      return held;
  }
}

/** Whether row changes are changes of what is held. */
export function isBase(state: State, frame: Frame): boolean {
  return state.hasValue && state.version === frame.base;
}

function problemOf(frame: Frame): { document: ProblemDocument; status: number } {
  const document = frame.problem ?? {};
  return { document, status: document.status ?? 500 };
}

export function errorOf(state: State): ProblemError | undefined {
  return state.problem && new ProblemError(state.problem.document, state.problem.status);
}

/**
 * What the client says that it holds. Two digests are of no result, so that the server sends the whole value: `+` if a
 * value is shown, and `-` if there is none, so that the listener learns of a run that keeps failing.
 */
export function have(state: State, version = state.version): string | undefined {
  return version === undefined ? undefined : `${version}/${state.digest ?? (state.hasValue ? '+' : '-')}`;
}

/** Canonical JSON: members sorted, `undefined` left out. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  if ('toJSON' in value && typeof value.toJSON === 'function') return canonical(value.toJSON());
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  members.sort(([one], [other]) => (one < other ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`).join(',')}}`;
}

/** Applies changed rows: removes `gone`, replaces or appends `set`, then sorts by `order`. */
export function merge(value: unknown, frame: Frame): unknown[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const set = frame.set ?? [];
  const by = frame.by ?? fieldOf(value, frame);
  if (by === undefined) return undefined;
  // The server's key is the text of a number, which may be another one here: `1.0` is read as 1.
  if (!set.every(([key, row]) => keyOf(row, by) === key)) return undefined;
  const rows = new Map<string, unknown>();
  for (const row of value) {
    const key = keyOf(row, by);
    if (key === undefined) return undefined;
    rows.set(key, row);
  }
  if (rows.size !== value.length) return undefined;
  for (const key of frame.gone ?? []) if (!rows.delete(key)) return undefined;
  for (const [key, row] of set) rows.set(key, row);
  if (!frame.order) return [...rows.values()];
  const sorted = frame.order.map((key) => rows.get(key));
  return frame.order.length === rows.size && !sorted.includes(undefined) ? sorted : undefined;
}

/** The field that holds the keys, if only one fits what the frame says. */
function fieldOf(value: unknown[], frame: Frame): string | undefined {
  const set = frame.set ?? [];
  const sample = set[0]?.[1] ?? value[0];
  if (typeof sample !== 'object' || sample === null) return undefined;
  const fields = Object.keys(sample).filter((field) => {
    const keys = new Set(value.map((row) => keyOf(row, field)));
    return (
      keys.size === value.length &&
      set.every(([key, row]) => keyOf(row, field) === key) &&
      (frame.gone ?? []).every((key) => keys.has(key))
    );
  });
  return fields.length === 1 ? fields[0] : undefined;
}

/** The key of a row as the server writes it; `undefined` if it cannot be known. */
function keyOf(row: unknown, field: string): string | undefined {
  const key = (row as Record<string, unknown> | null)?.[field];
  // A number above 2^53 is rounded when it is read: its text may be the key of another row.
  if (typeof key === 'number' && Math.abs(key) > Number.MAX_SAFE_INTEGER) return undefined;
  return typeof key === 'string' ? key : key === undefined ? undefined : JSON.stringify(key);
}
