// What the browser keeps for the site, encrypted: HttpOnly, SameSite=Lax, and Secure when the site has an https address.

import { EncryptJWT, jwtDecrypt } from 'jose';
import { settings } from './settings';

/** The tokens of a sign-in. */
export type Session = { accessToken: string; refreshToken: string; idToken: string; expiresAt: number };
/** What the answer to a sign-in is compared with. */
export type SignIn = { state: string; nonce: string; verifier: string };

const LIFE_S = { session: 7 * 24 * 3600, 'sign-in': 600 };
type Kind = keyof typeof LIFE_S;
type Content = { session: Session; 'sign-in': SignIn };

export function nameOf(kind: Kind): string {
  return settings.isHttps ? `__Host-${kind}` : kind;
}

export function optionsOf(kind: Kind) {
  return { httpOnly: true, sameSite: 'lax', secure: settings.isHttps, path: '/', maxAge: LIFE_S[kind] } as const;
}

/** The value of a cookie. */
export function sealed<K extends Kind>(kind: K, content: Content[K]): Promise<string> {
  return new EncryptJWT({ content })
    .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
    .setAudience(kind)
    .setExpirationTime(`${LIFE_S[kind]}s`)
    .encrypt(settings.sessionKey);
}

/** What is in the value of a cookie. Undefined when it is not ours or too old. */
export async function opened<K extends Kind>(kind: K, value: string | undefined): Promise<Content[K] | undefined> {
  if (!value) return undefined;
  try {
    const { payload } = await jwtDecrypt(value, settings.sessionKey, { audience: kind });
    return payload.content as Content[K];
  } catch {
    return undefined;
  }
}
