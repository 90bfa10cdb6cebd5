// W1, `sso`, for k6: subscription checks, reads of the user, and device codes.
//
// Of ten operations, seven are GET /api/subscription, two are a device flow (a code, then one poll that is pending), and
// one is GET /api/user. It is a closed loop: each virtual user waits for its answer and then for THINK_TIME. A slow server
// gets less load in a closed loop, so read the latency together with the throughput.
//
//   k6 run -e CLIENT_ID=client_… -e EMAIL=ada@acme.test -e PASSWORD=… -e VUS=200 bench/k6/sso.js
//
// `sarsen demo` prints the values: CLIENT_ID is in its first `curl` line, the others are in the lines "Sign in as".
//
// BASE_URL    address of the server; https if its issuer is https             (http://localhost:7070)
// CLIENT_ID   a client of the kind `device`
// EMAIL       a user of the organization of that client
// PASSWORD    the password of the user
// VUS         virtual users                                                   (100)
// DURATION    duration in the format of k6                                    (60s)
// THINK_TIME  seconds between two operations of a user                        (0)
// SEED        the same seed gives each user the same operations               (1)
//
// The set-up signs a browser in. Each virtual user first signs in as a device, which that browser allows, and refreshes its
// token before it expires. These requests are not measured. All virtual users are one account and one client, where
// `sarsen bench sso` has one account each and many organizations. The server answers 429 after a million device flows of
// one client in 16 minutes.

import http from 'k6/http';
import { check, randomSeed, sleep } from 'k6';

const BASE_URL = (__ENV.BASE_URL || 'http://localhost:7070').replace(/\/$/, '');
const CLIENT_ID = required('CLIENT_ID');
const USER = { email: required('EMAIL'), password: required('PASSWORD') };
const THINK_TIME_S = Number(__ENV.THINK_TIME || 0);
const SEED = Number(__ENV.SEED || 1);
const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';
const SCOPE = 'openid profile email offline_access';
/** A token is refreshed when it expires within this time. */
const RENEW_BEFORE_MS = 60000;
const TRIES_MAX = 20;
const SLOW = ['p(99)<1000'];

export const options = {
  scenarios: {
    sso: {
      executor: 'constant-vus',
      vus: Number(__ENV.VUS || 100),
      duration: __ENV.DURATION || '60s',
      gracefulStop: '10s',
    },
  },
  summaryTrendStats: ['min', 'med', 'p(90)', 'p(99)', 'p(99.9)', 'max'],
  thresholds: {
    http_req_failed: ['rate==0'],
    checks: ['rate==1'],
    // With a threshold for each kind of request, k6 prints its latencies.
    'http_req_duration{name:subscription}': SLOW,
    'http_req_duration{name:device_code}': SLOW,
    'http_req_duration{name:device_poll}': SLOW,
    'http_req_duration{name:user}': SLOW,
  },
};

/** The cookies of a browser that is signed in as USER. It also signs in one device, as a check. */
export function setup() {
  signIn(USER);
  const cookies = {};
  for (const [name, values] of Object.entries(http.cookieJar().cookiesForURL(BASE_URL))) cookies[name] = values[0];
  return cookies;
}

/** The tokens of this virtual user. */
let tokens;

export default function operation(cookies) {
  if (__ITER === 0) randomSeed(SEED * 1000003 + __VU);
  keepSignedIn(cookies);
  const dice = Math.random();
  if (dice < 0.7) subscription();
  else if (dice < 0.9) deviceFlow();
  else user();
  if (THINK_TIME_S > 0) sleep(THINK_TIME_S);
}

function subscription() {
  const answer = http.get(`${BASE_URL}/api/subscription`, bearer('subscription'));
  check(answer, { 'a subscription has a plan': ({ status }) => status === 200 && Boolean(field(answer, 'plan')) });
}

function user() {
  const answer = http.get(`${BASE_URL}/api/user`, bearer('user'));
  check(answer, { 'a user has an e-mail': ({ status }) => status === 200 && Boolean(field(answer, 'email')) });
}

function deviceFlow() {
  const begun = post('/auth/device/code', { client_id: CLIENT_ID }, measured('device_code', 200));
  const device_code = field(begun, 'device_code');
  const started = check(begun, { 'a device gets a code': ({ status }) => status === 200 && Boolean(device_code) });
  if (!started) return;
  const poll = { grant_type: DEVICE_GRANT, client_id: CLIENT_ID, device_code };
  const polled = post('/auth/token', poll, measured('device_poll', 400));
  check(polled, { 'the code is pending': () => field(polled, 'error') === 'authorization_pending' });
}

function keepSignedIn(cookies) {
  if (!tokens) {
    // k6 empties the jar before each operation.
    for (const [name, value] of Object.entries(cookies)) http.cookieJar().set(BASE_URL, name, value);
    tokens = signIn();
  } else if (tokens.ends_at_ms - Date.now() < RENEW_BEFORE_MS) {
    const { refresh_token } = tokens;
    tokens = undefined; // After a refusal it signs in again.
    tokens = redeem({ grant_type: 'refresh_token', client_id: CLIENT_ID, refresh_token });
  }
}

/** Signs a device in, allowed by the browser of the jar. `account` signs that browser in first. */
function signIn(account) {
  const begun = withRetries(() => post('/auth/device/code', { client_id: CLIENT_ID, scope: SCOPE }, unmeasured()));
  const { device_code, user_code } = expect(begun, 200, 'a device code').json();
  // The page of `verification_uri_complete`, at BASE_URL.
  let page = withRetries(() => http.get(`${BASE_URL}/activate?user_code=${user_code}`, unmeasured()));
  page = submit(page, {}, 'the page that shows the code');
  if (account) page = submit(page, account, 'the page that asks for the password');
  page = submit(page, { decision: 'allow' }, 'the page that asks whether to allow the device');
  expect(page, 200, 'the page that says that the device is signed in');
  return redeem({ grant_type: DEVICE_GRANT, client_id: CLIENT_ID, device_code });
}

function submit(page, fields, what) {
  expect(page, 200, what);
  return withRetries(() => page.submitForm({ fields, params: unmeasured() }));
}

function redeem(grant) {
  const answer = withRetries(() => post('/auth/token', grant, unmeasured()));
  const { access_token, refresh_token, expires_in } = expect(answer, 200, `tokens for ${grant.grant_type}`).json();
  return { access_token, refresh_token, ends_at_ms: Date.now() + expires_in * 1000 };
}

/** Retries after 429, 503 and slow_down: thousands of devices may be signing in. */
function withRetries(send) {
  for (let tries = 1; ; tries += 1) {
    const answer = send();
    const isRefused = [429, 503].includes(answer.status) || field(answer, 'error') === 'slow_down';
    if (!isRefused || tries === TRIES_MAX) return answer;
    sleep(Number(answer.headers['Retry-After'] || 1));
  }
}

/** The answer, if it is the expected one. Otherwise the operation fails; in the set-up the run fails. */
function expect(answer, status, what) {
  if (check(answer, { 'a device signs in': () => answer.status === status })) return answer;
  throw new Error(`${what}: ${answer.status} ${answer.error} ${String(answer.body).slice(0, 200)}`);
}

/** Parameters of a measured request. The expected status may be an OAuth error, which is not a failed request. */
function measured(name, status) {
  return { tags: { name }, responseCallback: http.expectedStatuses(status) };
}

/** Parameters of a request that is not measured: it counts for the threshold `checks` only. */
function unmeasured() {
  return { tags: { name: 'sign_in' }, responseCallback: null };
}

function bearer(name) {
  return { ...measured(name, 200), headers: { Authorization: `Bearer ${tokens.access_token}` } };
}

function post(path, body, params) {
  const headers = { 'Content-Type': 'application/json' };
  return http.post(`${BASE_URL}${path}`, JSON.stringify(body), { ...params, headers });
}

/** A field of a JSON answer, or undefined. */
function field(answer, name) {
  try {
    return answer.json(name);
  } catch {
    return undefined;
  }
}

function required(name) {
  if (!__ENV[name]) throw new Error(`${name} is not set; the head of this file describes it`);
  return __ENV[name];
}
