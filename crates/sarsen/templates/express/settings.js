// The settings, from the environment. `sarsen dev` sets those of Sarsen, and writes them to `.env.local` for programs that it does
// not start.

import { hkdfSync } from 'node:crypto';

try {
  process.loadEnvFile('.env.local'); // What the environment has already stays.
} catch (error) {
  if (error.code !== 'ENOENT') throw error;
}

function required(name) {
  const value = process.env[name];
  if (value) return value;
  console.error(`${name} is not set. Start the site with: sarsen dev -- npm run dev (README.md lists the settings)`);
  process.exit(1);
}

const port = Number(process.env.PORT ?? 3000);
const baseUrl = process.env.BASE_URL ?? `http://localhost:${port}`;
const clientSecret = required('OIDC_CLIENT_SECRET');

// On this machine a secret is made from the client's, so that there is one setting less and a restart signs nobody out.
function sessionSecret() {
  const isHere = new URL(baseUrl).hostname === 'localhost';
  if (process.env.SESSION_SECRET || !isHere) return required('SESSION_SECRET');
  return Buffer.from(hkdfSync('sha256', clientSecret, '', 'cookies of the site', 32)).toString('hex');
}

export const settings = {
  issuer: required('OIDC_ISSUER'),
  clientId: required('OIDC_CLIENT_ID'),
  clientSecret,
  sessionSecret: sessionSecret(),
  baseUrl,
  host: process.env.HOST ?? 'localhost',
  port,
};
