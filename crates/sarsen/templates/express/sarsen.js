// What the site asks Sarsen about the signed-in user: https://…/api/docs of the server has more.

import { settings } from './settings.js';

/** The access token, a new one when it has expired. Undefined when the sign-in has ended at Sarsen. */
export async function accessToken(token) {
  if (!token?.isExpired()) return token?.access_token;
  try {
    return (await token.refresh()).access_token;
  } catch (error) {
    if (error.error === 'invalid_grant') return undefined;
    throw error;
  }
}

/** Who the user is: `id`, `name`, `email` and more. Undefined when the sign-in has ended. */
export const userOf = (token) => ask('/api/user', token);

/** What the user may use: `plan`, `features`, `limits` and more. Undefined when the sign-in has ended. */
export const subscriptionOf = (token) => ask('/api/subscription', token);

/** The stream of what changes for the user, which begins with the whole state. Undefined when the sign-in has ended. */
export async function eventsOf(token, signal) {
  const answer = await get('/api/live', token, signal);
  return answer?.body;
}

async function ask(path, token) {
  const answer = await get(path, token, AbortSignal.timeout(10_000));
  return answer?.json();
}

async function get(path, token, signal) {
  const answer = await fetch(settings.issuer + path, { headers: { authorization: `Bearer ${token}` }, signal });
  if (answer.status === 401) return undefined;
  if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${await answer.text()}`);
  return answer;
}
