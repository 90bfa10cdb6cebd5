// W1, `sso`, for people who measure with k6: a suite of products asks for plans, users and device codes.
//
// Seven of ten turns ask for the subscription, two begin a device flow (a code, then one poll, which must be
// told to wait), one asks for the user. Closed loop: each virtual user waits for its answer, then for THINK_TIME.
// When the server is at its limit a closed loop slows down with it, so read the latency beside the throughput.
//
//   k6 run -e CLIENT_ID=client_… -e EMAIL=ada@acme.test -e PASSWORD=… -e VUS=200 bench/k6/sso.js
//
// `sarsen demo` prints what to put there: CLIENT_ID stands in its first `curl` line, the others under "Sign in as".
//
// BASE_URL    the server; with https, when it calls itself so                 (http://localhost:7070)
// CLIENT_ID   a client of the kind `device`, of a service
// EMAIL       a user of that client's organization …
// PASSWORD    … and the password
// VUS         virtual users                                                   (100)
// DURATION    how long, as k6 writes it                                       (60s)
// THINK_TIME  seconds between two turns of a user                             (0)
// SEED        the same seed gives each user the same turns                    (1)
//
// The set-up signs a browser in. In its first turn each virtual user signs in as one more device of that person, which
// the browser allows, and before its token ends it gets another one; of these requests no latency is looked at. So all
// are one person and one client here, where `sarsen bench sso` makes a person for each and many organizations. After a
// million device flows of one client in 16 minutes the server answers 429.

import http from 'k6/http';
import { check, randomSeed, sleep } from 'k6';

const BASE_URL = (__ENV.BASE_URL || 'http://localhost:7070').replace(/\/$/, '');
const CLIENT_ID = needed('CLIENT_ID');
const PERSON = { email: needed('EMAIL'), password: needed('PASSWORD') };
const THINK_TIME_S = Number(__ENV.THINK_TIME || 0);
const SEED = Number(__ENV.SEED || 1);
const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';
const SCOPE = 'openid profile email offline_access';
/** A token is renewed when it has no more than this to live. */
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
    // A threshold for each kind of request makes k6 print its latencies on a line of their own.
    'http_req_duration{name:subscription}': SLOW,
    'http_req_duration{name:device_code}': SLOW,
    'http_req_duration{name:device_poll}': SLOW,
    'http_req_duration{name:user}': SLOW,
  },
};

/** The cookies of a browser in which PERSON is signed in. One device is signed in on the way, to see that all fits. */
export function setup() {
  signIn(PERSON);
  const cookies = {};
  for (const [name, values] of Object.entries(http.cookieJar().cookiesForURL(BASE_URL))) cookies[name] = values[0];
  return cookies;
}

/** The tokens of this virtual user; each has variables of its own. */
let tokens;

export default function turn(cookies) {
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
  check(polled, { 'the device is told to wait': () => field(polled, 'error') === 'authorization_pending' });
}

function keepSignedIn(cookies) {
  if (!tokens) {
    // k6 empties the jar before each turn.
    for (const [name, value] of Object.entries(cookies)) http.cookieJar().set(BASE_URL, name, value);
    tokens = signIn();
  } else if (tokens.ends_at_ms - Date.now() < RENEW_BEFORE_MS) {
    const { refresh_token } = tokens;
    tokens = undefined; // A refusal ends in another sign-in.
    tokens = redeem({ grant_type: 'refresh_token', client_id: CLIENT_ID, refresh_token });
  }
}

/** Signs a device in, which the browser of the jar allows; `person` says who that is, if nobody is signed in there. */
function signIn(person) {
  const begun = patiently(() => post('/auth/device/code', { client_id: CLIENT_ID, scope: SCOPE }, aside()));
  const { device_code, user_code } = expect(begun, 200, 'a device code').json();
  // The same page as `verification_uri_complete`, at the address that is measured.
  let page = patiently(() => http.get(`${BASE_URL}/activate?user_code=${user_code}`, aside()));
  if (person) page = submit(page, person, 'the page that asks for the password');
  page = submit(page, { decision: 'allow' }, 'the page that asks whether to allow the device');
  expect(page, 200, 'the page that says that the device is signed in');
  return redeem({ grant_type: DEVICE_GRANT, client_id: CLIENT_ID, device_code });
}

function submit(page, fields, what) {
  expect(page, 200, what);
  return patiently(() => page.submitForm({ fields, params: aside() }));
}

function redeem(grant) {
  const answer = patiently(() => post('/auth/token', grant, aside()));
  const { access_token, refresh_token, expires_in } = expect(answer, 200, `tokens for ${grant.grant_type}`).json();
  return { access_token, refresh_token, ends_at_ms: Date.now() + expires_in * 1000 };
}

/** Sends again what the server puts off; thousands of devices may be signing in at this moment. */
function patiently(send) {
  for (let tries = 1; ; tries += 1) {
    const answer = send();
    const isPutOff = [429, 503].includes(answer.status) || field(answer, 'error') === 'slow_down';
    if (!isPutOff || tries === TRIES_MAX) return answer;
    sleep(Number(answer.headers['Retry-After'] || 1));
  }
}

/** The answer, when it is what must come; else the turn ends here, and so does the run when this is its set-up. */
function expect(answer, status, what) {
  if (check(answer, { 'a device signs in': () => answer.status === status })) return answer;
  throw new Error(`${what}: ${answer.status} ${answer.error} ${String(answer.body).slice(0, 200)}`);
}

/** Of a request that is measured. The status that is expected may be an error of OAuth: that is no failed request. */
function measured(name, status) {
  return { tags: { name }, responseCallback: http.expectedStatuses(status) };
}

/** Of a request that is not: it counts for no threshold but `checks`. */
function aside() {
  return { tags: { name: 'sign_in' }, responseCallback: null };
}

function bearer(name) {
  return { ...measured(name, 200), headers: { Authorization: `Bearer ${tokens.access_token}` } };
}

function post(path, body, params) {
  const headers = { 'Content-Type': 'application/json' };
  return http.post(`${BASE_URL}${path}`, JSON.stringify(body), { ...params, headers });
}

/** A field of a JSON answer, or undefined; a refusal may have no body at all. */
function field(answer, name) {
  try {
    return answer.json(name);
  } catch {
    return undefined;
  }
}

function needed(name) {
  if (!__ENV[name]) throw new Error(`${name} is not set; see the top of this file`);
  return __ENV[name];
}
