// The settings, from the environment. `sarsen dev` sets those of Sarsen, and writes them to `.env.local`, which Next.js reads too.
// They are read when they are needed, because a build has none.

import { hkdfSync } from 'node:crypto';

function required(name: string): string {
  const value = process.env[name];
  if (value) return value;
  throw new Error(`${name} is not set. Start the site with: sarsen dev -- npm run dev (README.md lists the settings)`);
}

export const settings = {
  get issuer() {
    return required('OIDC_ISSUER');
  },
  get clientId() {
    return required('OIDC_CLIENT_ID');
  },
  get clientSecret() {
    return required('OIDC_CLIENT_SECRET');
  },
  get baseUrl() {
    return process.env.BASE_URL ?? `http://localhost:${process.env.PORT ?? 3000}`;
  },
  get isHttps() {
    return this.baseUrl.startsWith('https:');
  },
  /** Encrypts the cookies. On this machine it is made from the client's secret, so that there is one setting less. */
  get sessionKey(): Uint8Array {
    const isHere = new URL(this.baseUrl).hostname === 'localhost';
    const secret = process.env.SESSION_SECRET || !isHere ? required('SESSION_SECRET') : this.clientSecret;
    return new Uint8Array(hkdfSync('sha256', secret, '', 'cookies of the site', 32));
  },
};
