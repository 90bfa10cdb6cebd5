// What the site asks Sarsen about the signed-in user. More about each answer: /api/docs of the server.

import type { Session } from './cookies';
import { settings } from './settings';

export type User = { id: string; name: string; email: string };
export type Subscription = { plan: string; features: string[]; limits: Record<string, number>; status: string };

/** Who the user is. Undefined when the sign-in has ended. */
export const userOf = (session: Session) => ask<User>('/api/user', session);

/** What the user may use. Undefined when the sign-in has ended. */
export const subscriptionOf = (session: Session) => ask<Subscription>('/api/subscription', session);

/** The stream of what changes for the user, which begins with the whole state. Undefined when the sign-in has ended. */
export async function eventsOf(session: Session, signal: AbortSignal) {
  return (await get('/api/live', session, signal))?.body;
}

async function ask<T>(path: string, session: Session): Promise<T | undefined> {
  const answer = await get(path, session, AbortSignal.timeout(10_000));
  return answer && ((await answer.json()) as T);
}

async function get(path: string, session: Session, signal: AbortSignal): Promise<Response | undefined> {
  const headers = { authorization: `Bearer ${session.accessToken}` };
  const answer = await fetch(settings.issuer + path, { headers, signal, cache: 'no-store' });
  if (answer.status === 401) return undefined;
  if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${await answer.text()}`);
  return answer;
}
