// W5, `attempts`, for k6: answers of students, saved at a constant rate of arrivals.
//
// Each request is PATCH /attempts/{id} with a random id and the answers so far, as in the original load test: an open loop,
// in which a slow server does not get less load. k6 counts the latency from the start of a request, and the requests that it
// could not start as `dropped_iterations`: a run with dropped iterations did not reach its rate.
//
//   cargo run --release -p exam_attempts -- seed
//   cargo run --release -p exam_attempts
//   k6 run bench/k6/attempts.js
//   k6 run -e RATE=20000 bench/k6/attempts.js
//
// BASE_URL  address of the back end                          (http://localhost:8000)
// RATE      requests a second                                (10000)
// DURATION  duration in the format of k6                     (60s)
// ATTEMPTS  attempts in the table, with the ids 1 to N       (100000)
// VUS       virtual users before the run                     (6000)
// VUS_MAX   virtual users at most                            (15000)
// SEED      the same seed gives the same ids                 (1)

import http from 'k6/http';
import { check, randomSeed } from 'k6';

const BASE_URL = (__ENV.BASE_URL || 'http://localhost:8000').replace(/\/$/, '');
const ATTEMPTS = Number(__ENV.ATTEMPTS || 100000);
const BODY = JSON.stringify({ answers: { 1: [1], 2: [2], 3: [3], 4: [4] } });
const PARAMS = { headers: { 'Content-Type': 'application/json' }, tags: { name: 'PATCH /attempts/{id}' } };

export const options = {
  scenarios: {
    attempts: {
      executor: 'constant-arrival-rate',
      rate: Number(__ENV.RATE || 10000),
      timeUnit: '1s',
      duration: __ENV.DURATION || '60s',
      preAllocatedVUs: Number(__ENV.VUS || 6000),
      maxVUs: Number(__ENV.VUS_MAX || 15000),
    },
  },
  summaryTrendStats: ['avg', 'min', 'med', 'p(90)', 'p(95)', 'p(99)', 'max'],
  thresholds: {
    http_req_failed: ['rate==0'],
    checks: ['rate==1'],
    dropped_iterations: ['count==0'],
    http_req_duration: ['avg<20', 'max<1000'],
  },
};

let isSeeded = false;

export default function () {
  if (!isSeeded) {
    // Each virtual user has random numbers of its own.
    randomSeed(Number(__ENV.SEED || 1) * 1000003 + __VU);
    isSeeded = true;
  }
  const id = 1 + Math.floor(Math.random() * ATTEMPTS);
  const answer = http.patch(`${BASE_URL}/attempts/${id}`, BODY, PARAMS);
  check(answer, { 'the answers are saved': ({ status }) => status === 200 });
}
