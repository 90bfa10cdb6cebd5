// W1, `sso`, for people who measure with k6: a suite of products asks for plans, users and device codes.
//
// Seven of ten turns ask for the subscription, two begin a device flow (a code, then one poll, which must be
// told to wait), one asks for the user. Closed loop: each virtual user waits for its answer, then for THINK_TIME.
// When the server is at its limit a closed loop slows down with it, so read the latency beside the throughput.
//
//   k6 run -e BASE_URL=http://127.0.0.1:7070 -e TOKENS_FILE=/tmp/tokens.json -e VUS=2000 -e THINK_TIME=1 bench/k6/sso.js
//
// BASE_URL    where the server is                                             (http://127.0.0.1:7070)
// TOKENS_FILE a JSON list of {"token","client_id","org","service"}; user N takes entry N, around and around
// VUS         virtual users                                                   (100)
// DURATION    how long, as k6 writes it                                       (60s)
// THINK_TIME  seconds between two turns of a user                             (0)
// SEED        the same seed gives each user the same turns                    (1)

import http from 'k6/http';
import { check, randomSeed, sleep } from 'k6';
import { SharedArray } from 'k6/data';

const BASE_URL = (__ENV.BASE_URL || 'http://127.0.0.1:7070').replace(/\/$/, '');
const THINK_TIME_S = Number(__ENV.THINK_TIME || 0);
const SEED = Number(__ENV.SEED || 1);
const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';
const FAILED = { failed: ['rate==0'], slow: ['p(99)<1000'] };

if (!__ENV.TOKENS_FILE) throw new Error('TOKENS_FILE is not set; see the top of this file');
const accounts = new SharedArray('accounts', () => JSON.parse(open(__ENV.TOKENS_FILE)));

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
    http_req_failed: FAILED.failed,
    checks: ['rate==1'],
    http_req_duration: FAILED.slow,
    // A threshold for each kind of request makes k6 print its latencies on a line of their own.
    'http_req_duration{name:subscription}': FAILED.slow,
    'http_req_duration{name:device_code}': FAILED.slow,
    'http_req_duration{name:device_poll}': FAILED.slow,
    'http_req_duration{name:user}': FAILED.slow,
  },
};

export default function turn() {
  if (__ITER === 0) randomSeed(SEED * 1000003 + __VU);
  const account = accounts[(__VU - 1) % accounts.length];
  const dice = Math.random();
  if (dice < 0.7) subscription(account);
  else if (dice < 0.9) deviceFlow(account);
  else user(account);
  if (THINK_TIME_S > 0) sleep(THINK_TIME_S);
}

function subscription({ token }) {
  const answer = http.get(`${BASE_URL}/api/subscription`, bearer(token, 'subscription'));
  check(answer, { 'a subscription has a plan': ({ status }) => status === 200 && Boolean(field(answer, 'plan')) });
}

function user({ token }) {
  const answer = http.get(`${BASE_URL}/api/user`, bearer(token, 'user'));
  check(answer, { 'a user has an e-mail': ({ status }) => status === 200 && Boolean(field(answer, 'email')) });
}

function deviceFlow({ client_id, org, service }) {
  const begun = post('/auth/device/code', { client_id, org, service }, 'device_code', 200);
  const device_code = field(begun, 'device_code');
  const started = check(begun, { 'a device gets a code': ({ status }) => status === 200 && Boolean(device_code) });
  if (!started) return;
  const polled = post('/auth/token', { grant_type: DEVICE_GRANT, client_id, device_code }, 'device_poll', 400);
  check(polled, { 'the device is told to wait': () => field(polled, 'error') === 'authorization_pending' });
}

function bearer(token, name) {
  return { headers: { Authorization: `Bearer ${token}` }, tags: { name }, responseCallback: http.expectedStatuses(200) };
}

/** The status that is expected may be an error of OAuth: it must not count as a failed request. */
function post(path, body, name, status) {
  const headers = { 'Content-Type': 'application/json' };
  return http.post(`${BASE_URL}${path}`, JSON.stringify(body), {
    headers, tags: { name }, responseCallback: http.expectedStatuses(status),
  });
}

/** A field of a JSON answer, or undefined; a refusal may have no body at all. */
function field(answer, name) {
  try {
    return answer.json(name);
  } catch {
    return undefined;
  }
}
