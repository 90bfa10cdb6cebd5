// @sarsen/client: typed RPC and live queries.

export { Client } from './client.js';
export type {
  Answer,
  AnyApi,
  ApiShape,
  Args as ArgsOf,
  CallOptions,
  ClientOptions,
  Local,
  Name as NameOf,
  Value as ValueOf,
} from './client.js';
export type { Status, Timing } from './connection.js';
export { ConnectionError, ProblemError } from './problem.js';
export type { ProblemDocument } from './problem.js';
export type { Info } from './subscriptions.js';
export type { TokenSource } from './tokens.js';
