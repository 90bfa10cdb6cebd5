// Runs before each page and route: renews tokens that expire, because pages cannot change cookies, and says what scripts a
// page may run.

import { NextResponse, type NextRequest } from 'next/server';
import { nameOf, opened, optionsOf, sealed, type Session } from '@/lib/cookies';
import { renewed } from '@/lib/openid';

const EXPIRES_SOON_MS = 30_000;

export const config = { matcher: '/((?!_next/static|_next/image|favicon.ico).*)' };

export async function proxy(request: NextRequest) {
  const name = nameOf('session');
  const session = await opened('session', request.cookies.get(name)?.value);
  const isOld = session && session.expiresAt < Date.now() + EXPIRES_SOON_MS;
  const fresh = isOld ? await renewedOrSame(session) : session;
  const value = fresh && fresh !== session ? await sealed('session', fresh) : undefined;
  if (value) request.cookies.set(name, value);
  if (session && !fresh) request.cookies.delete(name);

  const policy = policyOf(Buffer.from(crypto.randomUUID()).toString('base64'));
  const headers = new Headers(request.headers);
  headers.set('Content-Security-Policy', policy); // Next.js gives the scripts of the page the same nonce.
  const response = NextResponse.next({ request: { headers } });
  response.headers.set('Content-Security-Policy', policy);
  if (value) response.cookies.set(name, value, optionsOf('session'));
  if (session && !fresh) response.cookies.set(name, '', { ...optionsOf('session'), maxAge: 0 });
  return response;
}

/** While Sarsen cannot be asked nobody is signed out. */
async function renewedOrSame(session: Session): Promise<Session | undefined> {
  try {
    return await renewed(session);
  } catch (error) {
    console.error(error);
    return session;
  }
}

function policyOf(nonce: string): string {
  const isDev = process.env.NODE_ENV === 'development';
  return [
    "default-src 'none'",
    "connect-src 'self'",
    "font-src 'self'",
    "img-src 'self' data:",
    `script-src 'self' 'nonce-${nonce}' 'strict-dynamic'${isDev ? " 'unsafe-eval'" : ''}`,
    `style-src 'self'${isDev ? " 'unsafe-inline'" : ''}`,
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
}
