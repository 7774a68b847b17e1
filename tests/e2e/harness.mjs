// A whole stack per test: the built Worker in workerd, the development database and the provider model, on free ports,
// in a home of its own. Nothing in here sleeps: it waits for conditions, and says which one did not come.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { delay, freePort } from '../../scripts/lib/part.mjs';
import { buildDir } from '../../scripts/lib/paths.mjs';
import { hasVerb, migrate } from '../../scripts/lib/native.mjs';
import { loadSecrets } from '../../scripts/lib/secrets.mjs';
import { readSettings, workerVariables } from '../../scripts/lib/settings.mjs';
import { fireSchedule, startDatabase, startProvider, startWorker } from '../../scripts/lib/stack.mjs';
import { databaseControl, fromHrana, providerControl, request, toHrana } from './control.mjs';

/** How long a condition may take to come true. Generous, for machines that compile at the same time. */
const UNTIL_TIMEOUT_MS = 30_000;

/** How often a condition is looked at. */
const UNTIL_POLL_MS = 40;

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
 * Starts a stack. The provider takes any pace unless `ratePerSecond` says otherwise. `vars` are laid over the Worker's variables; `consumers` over the keys of both queue consumers
 * (`{ max_retries: 2 }`); `worker: false` leaves the Worker for a later `startWorker`. Stop it in the test's `after`.
 */
export async function startStack({ vars = {}, consumers = {}, build = buildDir, latencyMs = 0, ratePerSecond = 0, worker = true } = {}) {
  const stack = new Stack(mkdtempSync(join(tmpdir(), 'sealpost-e2e-')));
  try {
    await stack.open({ latencyMs, ratePerSecond });
    stack.profile = { vars, consumers, build };
    if (worker) await stack.startWorker();
    return stack;
  } catch (error) {
    await stack.stop();
    throw error;
  }
}

/** One running stack. */
class Stack {
  constructor(home) {
    this.home = home;
    this.parts = {};
  }

  /** Starts the parts that the Worker needs; `startStack` calls it. */
  async open({ latencyMs, ratePerSecond }) {
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
    await this.startDatabase();
    if (await hasVerb('migrate')) await migrate(this.settings.databaseUrl);
    this.parts.provider = await startProvider({ home: this.home, port: providerPort, ratePerSecond });
  }

  /** Starts the database on the same file and port, after `stopDatabase`. */
  async startDatabase() {
    this.parts.database = await startDatabase({ home: this.home, port: this.settings.databasePort, latencyMs: this.options.latencyMs });
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
      vars: vars ?? this.profile.vars,
      build: build ?? this.profile.build,
      consumers: consumers ?? this.profile.consumers,
    };
    this.parts.worker = await startWorker({
      home: this.home,
      port: this.settings.workerPort,
      variables: { ...workerVariables(this.settings, this.secrets), ...this.profile.vars },
      build: this.profile.build,
      consumers: this.profile.consumers,
    });
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
      body: { requests: [{ type: 'execute', stmt: { sql, args: args.map(toHrana), want_rows: true } }, { type: 'close' }] },
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
