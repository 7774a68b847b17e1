// A whole stack per test: the built Worker in workerd, the development database and the provider model, on free ports,
// in a home of its own. Nothing in here sleeps: it waits for conditions, and says which one did not come.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Part, delay, freePort } from '../../scripts/lib/part.mjs';
import { buildDir, pinnedNode, root } from '../../scripts/lib/paths.mjs';
import { migrate } from '../../scripts/lib/native.mjs';
import { loadSecrets } from '../../scripts/lib/secrets.mjs';
import { readSettings, workerVariables } from '../../scripts/lib/settings.mjs';
import { connectWebhook, fireSchedule, startDatabase, startProvider, startWorker } from '../../scripts/lib/stack.mjs';
import { databaseControl, fromHrana, providerControl, request, toHrana } from './control.mjs';
import { DOOR } from './door.mjs';

/** How long a condition may take to come true. Generous, for machines that compile at the same time. */
const UNTIL_TIMEOUT_MS = 30_000;

/** How often a condition is looked at. */
const UNTIL_POLL_MS = 40;

/** How long a real sqld may take to be there: where the cache lacks it, it is downloaded. */
const SQLD_READY_MS = 180_000;

/** How tests/clients/sqld.mjs ends where no real server can be had. */
const UNAVAILABLE = 75;

/**
 * Waits until `check` (which may be async) returns something truthy, and returns it. An error that it throws counts as
 * "not yet" and is told when the time is up; so does `what`, the condition in words.
 */
export async function until(check, { timeoutMs = UNTIL_TIMEOUT_MS, what = check.toString() } = {}) {
  const deadline = Date.now() + timeoutMs;
  let last;
  for (;;) {
    try {
      last = await check();
      if (last) return last;
    } catch (error) {
      last = error;
    }
    if (Date.now() > deadline) {
      const seen = last instanceof Error ? last.message : JSON.stringify(last);
      throw new Error(`not within ${timeoutMs / 1000} s: ${what}; last seen: ${seen}`);
    }
    await delay(UNTIL_POLL_MS);
  }
}

/**
 * Starts a stack. The provider takes any pace unless `ratePerSecond` says otherwise. `vars` are laid over the Worker's
 * variables; `consumers` over the keys of both queue consumers (`{ max_retries: 2 }`); `door: true` puts the door in
 * front of the Worker (see `knock`); `worker: false` leaves the Worker for a later `startWorker`. `sqld: true` takes a
 * real sqld for the database, without control doors; where it cannot be had, the stack is `{ unavailable: reason }`.
 * Stop it in the test's `after`.
 */
export async function startStack(options = {}) {
  const { vars = {}, consumers = {}, build = buildDir, latencyMs = 0, ratePerSecond = 0, worker = true, door = false, sqld = false } = options;
  const stack = new Stack(mkdtempSync(join(tmpdir(), 'sealpost-e2e-')));
  try {
    await stack.open({ latencyMs, ratePerSecond, sqld });
    stack.profile = { vars, consumers, build, door };
    if (worker && !stack.unavailable) await stack.startWorker();
    return stack;
  } catch (error) {
    await stack.stop();
    throw error;
  }
}

/** Marks the statements of the tests themselves, so that the Worker's requests can be counted without them. */
const PAST_THE_WORKER = '/* past the Worker */ ';

/** One running stack. */
class Stack {
  constructor(home) {
    this.home = home;
    this.parts = {};
  }

  /** Starts the parts that the Worker needs; `startStack` calls it. */
  async open({ latencyMs, ratePerSecond, sqld }) {
    const [workerPort, databasePort, providerPort] = [await freePort(), await freePort(), await freePort()];
    this.settings = readSettings({
      SEALPOST_PORT: String(workerPort),
      SEALPOST_DB_PORT: String(databasePort),
      SEALPOST_PROVIDER_PORT: String(providerPort),
    });
    this.options = { latencyMs, ratePerSecond };
    this.secrets = loadSecrets(this.home);
    this.database = databaseControl(this.settings.databaseUrl);
    this.provider = providerControl(this.settings.providerUrl);
    /** The faults of both servers, as their `/_/faults` takes them. */
    this.faults = { database: (faults) => this.database.faults(faults), provider: (faults) => this.provider.faults(faults) };
    if (sqld) await this.startSqld();
    else await this.startDatabase();
    if (this.unavailable) return;
    await migrate(this.settings.databaseUrl);
    this.parts.provider = await startProvider({ home: this.home, port: providerPort, ratePerSecond });
  }

  /** Starts the database on the same file and port, after `stopDatabase`. */
  async startDatabase() {
    this.parts.database = await startDatabase({ home: this.home, port: this.settings.databasePort, latencyMs: this.options.latencyMs });
  }

  /** Starts a real sqld in the database's place. */
  async startSqld() {
    const address = `127.0.0.1:${this.settings.databasePort}`;
    const part = new Part({
      name: 'database',
      program: pinnedNode,
      args: [join(root, 'tests', 'clients', 'sqld.mjs'), '--serve', address],
      logPath: join(this.home, 'logs', 'database.log'),
    });
    this.parts.database = part;
    try {
      await part.ready(() => part.tail.includes('sqld listening'), SQLD_READY_MS);
    } catch (error) {
      if (part.how !== `ended with code ${UNAVAILABLE}`) throw error;
      this.unavailable = part.tail.trim().split('\n').at(-1);
    }
  }

  /** Ends the database; its file stays. */
  async stopDatabase() {
    await this.parts.database.stop();
  }

  /**
   * Starts the Worker on the same port, after `killWorker`. What is given here replaces what it ran with before, and
   * stays for the next start. The queues of the local runtime live in memory: a new Worker starts with empty ones.
   */
  async startWorker(vars, { build, consumers } = {}) {
    this.profile = {
      ...this.profile,
      vars: vars ?? this.profile.vars,
      build: build ?? this.profile.build,
      consumers: consumers ?? this.profile.consumers,
    };
    const variables = { ...workerVariables(this.settings, this.secrets), ...this.profile.vars };
    this.parts.worker = await startWorker({
      home: this.home,
      port: this.settings.workerPort,
      // A variable without a value is left out: that is how a test takes one away.
      variables: Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== undefined)),
      build: this.profile.build,
      main: this.profile.door ? this.doorMain() : undefined,
      consumers: this.profile.consumers,
    });
  }

  /** Writes the module that puts the door in front of the build. */
  doorMain() {
    const path = join(this.home, 'main.mjs');
    const [worker, door] = [join(this.profile.build, 'index.js'), join(import.meta.dirname, 'door.mjs')].map((file) => JSON.stringify(file));
    writeFileSync(path, `import Worker from ${worker};\nimport { withDoor } from ${door};\nexport default withDoor(Worker);\n`);
    return path;
  }

  /** An order at the door: `queue` with `{ refuse }`, or `send` with a list of `{ type, body }` for the main queue. */
  async knock(order, body) {
    const answer = await this.fetch(DOOR + order, { method: 'POST', body });
    if (answer.status !== 200) throw new Error(`the door answered ${answer.status}: ${JSON.stringify(answer.body)}`);
  }

  /** Forgets what the servers were told and what they counted, between two tests; the data stays. */
  async calm() {
    await this.database.clearFaults();
    await this.database.release({ discard: true });
    await this.database.reset();
    await this.provider.clearFaults();
    await this.provider.release();
    await this.provider.reset();
    await this.provider.rate(this.options.ratePerSecond);
  }

  /** Everything that the Worker has written to its log so far. */
  workerLog() {
    return readFileSync(join(this.home, 'logs', 'worker.log'), 'utf8');
  }

  /** Ends the Worker, wrangler and workerd alike, with a signal, and waits until nothing of it is left. */
  async killWorker(signal = 'SIGKILL') {
    await this.parts.worker.kill(signal);
  }

  /** One request to the Worker: `{ status, headers, body }`, the body parsed where it is JSON. */
  async fetch(path, { method = 'GET', token, headers = {}, body } = {}) {
    const authorization = token ? { authorization: `Bearer ${token}` } : {};
    return request(this.settings.workerUrl + path, { method, body, headers: { ...authorization, ...headers } });
  }

  /** `POST /v1/intents` with the producer token. */
  async intents(list) {
    return this.fetch('/v1/intents', { method: 'POST', token: this.secrets.producerToken, body: { intents: list } });
  }

  /** `GET /v1/intents/{id}` with the producer token; the body alone. */
  async intent(id) {
    return (await this.fetch(`/v1/intents/${id}`, { token: this.secrets.producerToken })).body;
  }

  /**
   * Connects the provider's events to the Worker; with `auto` they follow every mail by themselves. `calm` ends it.
   */
  async webhooks({ auto = false, secret = this.secrets.webhookSecret } = {}) {
    await connectWebhook(this.settings.providerUrl, { url: this.settings.receiptsUrl, secret, auto });
  }

  /** Lets the provider send one event about a mail, by its message id; `more` may name `svixId`, `timestampS`, `secret`. */
  async deliver(id, type, data = {}, more = {}) {
    return this.provider.deliver({ id, type, data, ...more });
  }

  /** `POST /v1/receipts/resend` with these bytes and headers. */
  async receipt(body, headers) {
    return this.fetch('/v1/receipts/resend', { method: 'POST', headers, body });
  }

  /** Everything the provider accepted so far. */
  async accepted() {
    return this.provider.accepted();
  }

  /** Every request the provider saw so far. */
  async requests() {
    return this.provider.requests();
  }

  /** What the database server counted since its last reset. */
  async counters() {
    return this.database.counters();
  }

  /** How many requests the Worker made to the database since the last reset of the counters. */
  async workerRequests() {
    const { recent } = await this.counters();
    return recent.filter(({ firstSql }) => !firstSql?.startsWith(PAST_THE_WORKER)).length;
  }

  /** Fires the schedule once and returns when the handler has run to its end; fails where the runtime reports a failure. */
  async tick() {
    const { ok, detail } = await fireSchedule(this.settings.workerUrl);
    if (!ok) throw new Error(`the schedule failed: ${detail}`);
  }

  /** Runs one statement in the database, past the Worker; returns the rows as objects, integers as numbers or bigints. */
  async sql(sql, args = []) {
    const { status, body } = await request(`${this.settings.databaseUrl}/v3/pipeline`, {
      method: 'POST',
      headers: { authorization: `Bearer ${this.secrets.databaseToken}` },
      body: { requests: [{ type: 'execute', stmt: { sql: PAST_THE_WORKER + sql, args: args.map(toHrana), want_rows: true } }, { type: 'close' }] },
    });
    const answer = body?.results?.[0];
    if (answer?.type !== 'ok') throw new Error(`SQL failed (HTTP ${status}): ${JSON.stringify(answer ?? body)}`);
    const { cols, rows } = answer.response.result;
    return rows.map((row) => Object.fromEntries(row.map((value, index) => [cols[index].name, fromHrana(value)])));
  }

  /** Ends every part and removes the home; SEALPOST_KEEP=1 keeps it, with the logs, and says where it is. */
  async stop() {
    for (const name of ['worker', 'provider', 'database']) await this.parts[name]?.stop();
    if (process.env.SEALPOST_KEEP) process.stderr.write(`kept ${this.home}\n`);
    else rmSync(this.home, { recursive: true, force: true });
  }
}
