// The control doors of the two local servers, and the values of Hrana's JSON.

/** The longest that a request of a test may take. Longer than any time limit inside the Worker. */
const REQUEST_TIMEOUT_MS = 60_000;

/** One request with JSON in and out: `{ status, headers, body }`; a body that is not JSON stays text. */
export async function request(url, { method = 'GET', headers = {}, body } = {}) {
  const response = await fetch(url, {
    method,
    headers: body === undefined ? headers : { 'content-type': 'application/json', ...headers },
    body: body === undefined || typeof body === 'string' ? body : JSON.stringify(body),
    signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: parsed(text) };
}

/** The control doors of the development database. */
export function databaseControl(url) {
  return {
    faults: (faults) => told(url, '/_/faults', faults),
    release: (which = {}) => told(url, '/_/release', which),
    counters: () => asked(url, '/_/counters'),
    reset: () => told(url, '/_/reset', {}),
  };
}

/** The control doors of the provider model. */
export function providerControl(url) {
  return {
    accepted: () => asked(url, '/_/accepted'),
    requests: () => asked(url, '/_/requests'),
    faults: (faults) => told(url, '/_/faults', faults),
    clock: (change) => told(url, '/_/clock', change),
    release: (which = {}) => told(url, '/_/release', which),
    reset: () => told(url, '/_/reset', {}),
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

async function told(url, path, order) {
  const { status, body } = await request(url + path, { method: 'POST', body: order });
  if (status >= 300) throw new Error(`POST ${path} answered ${status}: ${JSON.stringify(body)}`);
  return body;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
