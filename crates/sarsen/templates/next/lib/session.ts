// Who is signed in, for pages and routes. `proxy.ts` has renewed the tokens before they run.

import { cookies } from 'next/headers';
import { nameOf, opened, optionsOf, sealed, type Session } from './cookies';

export async function currentSession(): Promise<Session | undefined> {
  return opened('session', (await cookies()).get(nameOf('session'))?.value);
}

/** Not in pages: only routes can change cookies. */
export async function beginSession(session: Session) {
  (await cookies()).set(nameOf('session'), await sealed('session', session), optionsOf('session'));
}

export async function endSession() {
  (await cookies()).set(nameOf('session'), '', { ...optionsOf('session'), maxAge: 0 });
}
