// The control doors of the two local servers, and the values of Hrana's JSON.
import { exchange } from '../../scripts/lib/http.mjs';

/** The longest that a request of a test may take. Longer than any time limit inside the Worker. */
const REQUEST_TIMEOUT_MS = 60_000;

/**
 * One request with JSON in and out: `{ status, headers, body }`. Text and bytes go out as they are; an answer that is not
 * JSON stays text.
 */
export async function request(url, { method = 'GET', headers = {}, body } = {}) {
  const answer = await exchange(url, {
    method,
    headers: body === undefined ? headers : { 'content-type': 'application/json', ...headers },
    body: body === undefined || typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body),
    timeoutMs: REQUEST_TIMEOUT_MS,
  });
  return { status: answer.status, headers: answer.headers, body: parsed(answer.text) };
}

/**
 * The control doors of the development database. A fault rule is `{ kind, count?, skip?, match?, ms? }`, with the kinds
 * refuse, drop_after_commit, bad_gateway, bad_gateway_after_commit, busy, stall, stall_after_headers, hold_before and
 * hold_after; `match` is a piece of the SQL text.
 */
export function databaseControl(url) {
  return {
    faults: (rules) => told(url, '/_/faults', rules),
    /** `{ rules, held }`: the rules with their hits, and how many requests wait. */
    faultsNow: () => asked(url, '/_/faults'),
    clearFaults: () => told(url, '/_/faults', undefined, 'DELETE'),
    /** Lets the held requests go on, or drops them (`{ discard: true }`). */
    release: (how = {}) => told(url, '/_/release', how),
    counters: () => asked(url, '/_/counters'),
    resetCounters: () => told(url, '/_/counters/reset'),
    latency: (ms) => told(url, '/_/latency', { ms }),
    /** Forgets faults and counters; with `{ data: true }` the database too. */
    reset: (what = {}) => told(url, '/_/reset', what),
  };
}

/** The control doors of the provider model. */
export function providerControl(url) {
  return {
    accepted: () => asked(url, '/_/accepted'),
    requests: () => asked(url, '/_/requests'),
    faults: (rules) => told(url, '/_/faults', rules),
    faultsNow: () => asked(url, '/_/faults'),
    clearFaults: () => told(url, '/_/faults', undefined, 'DELETE'),
    release: () => told(url, '/_/release'),
    /** `{ advanceMs }` or `{ nowMs }`. */
    clock: (change) => told(url, '/_/clock', change),
    latency: (ms) => told(url, '/_/latency', { ms }),
    rate: (perSecond) => told(url, '/_/rate', { perSecond }),
    state: () => asked(url, '/_/state'),
    /** Sends one signed event: `{ id, type, data?, svixId?, timestampS?, secret? }`; the receiver's status with what was sent. */
    deliver: (event) => told(url, '/_/deliver', event),
    reset: () => told(url, '/_/reset'),
  };
}

/** A JavaScript value as a Hrana value. */
export function toHrana(value) {
  if (value === null || value === undefined) return { type: 'null' };
  if (typeof value === 'bigint' || Number.isInteger(value)) return { type: 'integer', value: String(value) };
  if (typeof value === 'number') return { type: 'float', value };
  if (typeof value === 'string') return { type: 'text', value };
  return { type: 'blob', base64: Buffer.from(value).toString('base64').replace(/=+$/, '') };
}

/** A Hrana value as a JavaScript value; integers beyond 2^53 become bigints. */
export function fromHrana(value) {
  switch (value.type) {
    case 'null':
      return null;
    case 'integer': {
      const exact = BigInt(value.value);
      return Number.isSafeInteger(Number(exact)) ? Number(exact) : exact;
    }
    case 'float':
    case 'text':
      return value.value;
    case 'blob':
      return Buffer.from(value.base64, 'base64');
    default:
      throw new Error(`a value of the unknown type ${value.type}`);
  }
}

async function asked(url, path) {
  const { status, body } = await request(url + path);
  if (status !== 200) throw new Error(`GET ${path} answered ${status}: ${JSON.stringify(body)}`);
  return body;
}

async function told(url, path, order, method = 'POST') {
  const { status, body } = await request(url + path, { method, body: order });
  if (status >= 300) throw new Error(`${method} ${path} answered ${status}: ${JSON.stringify(body)}`);
  return body;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
