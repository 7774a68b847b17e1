// The parts of a local stack, for `npm start` and for the end-to-end tests alike.
import { connect } from 'node:net';
import { join } from 'node:path';
import { exchange } from './http.mjs';
import { Part } from './part.mjs';
import { pinnedNode, sealpostCommand } from './paths.mjs';
import { Failure } from './say.mjs';
import { writeEnvFile, writeLocalConfig, wranglerDevArguments, wranglerEnv } from './wrangler.mjs';

/** A native part listens within milliseconds; a loaded machine may take seconds. */
const NATIVE_READY_MS = 20_000;

/** `wrangler dev` takes 2 to 4 s on a quiet machine of 2 cores, and several times that while something compiles. */
const WORKER_READY_MS = 90_000;

/** The longest that one question to a starting Worker may take. */
const ANSWER_MS = 5_000;

/** The path on which the local runtime fires the schedule; it exists in `wrangler dev` only. */
export const SCHEDULE_PATH = '/cdn-cgi/handler/scheduled?cron=*+*+*+*+*&format=json';

/** Starts the development database on a file and waits until it listens. */
export async function startDatabase({ home, port, latencyMs = 0, file = join(home, 'outbox.db') }) {
  const part = new Part({
    name: 'database',
    program: sealpostCommand,
    args: ['database', '--file', file, '--listen', `127.0.0.1:${port}`, '--latency-ms', String(latencyMs)],
    logPath: join(home, 'logs', 'database.log'),
  });
  return readyOrStopped(part, () => listens(port), NATIVE_READY_MS);
}

/** Starts the provider model and waits until it listens. `ratePerSecond` undefined leaves the model's own limit. */
export async function startProvider({ home, port, ratePerSecond }) {
  const part = new Part({
    name: 'provider',
    program: sealpostCommand,
    args: ['provider', '--listen', `127.0.0.1:${port}`, ...(ratePerSecond === undefined ? [] : ['--rate-per-second', String(ratePerSecond)])],
    logPath: join(home, 'logs', 'provider.log'),
  });
  return readyOrStopped(part, () => listens(port), NATIVE_READY_MS);
}

/** Starts the Worker in `wrangler dev` with exactly these variables laid over wrangler.toml's, and waits for an answer. */
export async function startWorker({ home, port, variables, build, main, consumers }) {
  const configPath = join(home, 'wrangler.toml');
  const envPath = join(home, 'worker.env');
  writeLocalConfig(configPath, { build, main, consumers });
  writeEnvFile(envPath, variables);
  const part = new Part({
    name: 'worker',
    program: pinnedNode,
    args: wranglerDevArguments({ configPath, envPath, home, port }),
    env: wranglerEnv(home),
    logPath: join(home, 'logs', 'worker.log'),
  });
  return readyOrStopped(part, () => answers(`http://127.0.0.1:${port}/health`), WORKER_READY_MS);
}

/**
 * Tells the provider model where its events go and with which secret it signs them. With `auto` they follow every mail
 * by themselves; without, each is ordered at its `/_/deliver`.
 */
export async function connectWebhook(providerUrl, { url, secret, auto = false }) {
  const body = JSON.stringify({ url, secret, auto });
  const { status, text } = await exchange(`${providerUrl}/_/webhook`, { method: 'POST', body, timeoutMs: ANSWER_MS });
  if (status >= 300) throw new Failure(`The provider model takes no webhook (HTTP ${status}): ${text.slice(0, 200)}`);
}

/** Fires the Worker's scheduled handler once, and returns `{ ok, detail }` when it has run to its end. */
export async function fireSchedule(workerUrl, timeoutMs = 60_000) {
  try {
    const { status, text } = await exchange(workerUrl + SCHEDULE_PATH, { timeoutMs });
    return { ok: status < 300, detail: `HTTP ${status} ${text.slice(0, 200)}` };
  } catch (error) {
    return { ok: false, detail: error.code ?? error.name };
  }
}

async function readyOrStopped(part, check, timeoutMs) {
  try {
    return await part.ready(check, timeoutMs);
  } catch (error) {
    await part.stop();
    throw error;
  }
}

function listens(port) {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}

async function answers(url) {
  try {
    await exchange(url, { timeoutMs: ANSWER_MS });
    return true;
  } catch {
    return false;
  }
}
