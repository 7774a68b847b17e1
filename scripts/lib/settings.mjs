// The settings of the local stack: environment variables with defaults, checked before anything starts.
import { Failure } from './say.mjs';
import { secretBindings } from './secrets.mjs';

/** Production's schedule fires every minute. Locally a person waits for the relay, so it is felt sooner. */
const TICK_MS_DEFAULT = 5_000;

/** Reads and checks the settings. */
export function readSettings(env = process.env) {
  const workerPort = number(env, 'SEALPOST_PORT', 8787, 1, 65_535);
  const databasePort = number(env, 'SEALPOST_DB_PORT', 8080, 1, 65_535);
  const providerPort = number(env, 'SEALPOST_PROVIDER_PORT', 8025, 1, 65_535);
  if (new Set([workerPort, databasePort, providerPort]).size < 3) {
    throw new Failure('SEALPOST_PORT, SEALPOST_DB_PORT and SEALPOST_PROVIDER_PORT must be three different ports.');
  }
  return {
    workerPort,
    databasePort,
    providerPort,
    tickMs: number(env, 'SEALPOST_TICK_MS', TICK_MS_DEFAULT, 100, 3_600_000),
    databaseLatencyMs: number(env, 'SEALPOST_DB_LATENCY_MS', 0, 0, 10_000),
    workerUrl: `http://127.0.0.1:${workerPort}`,
    receiptsUrl: `http://127.0.0.1:${workerPort}/v1/receipts/resend`,
    databaseUrl: `http://127.0.0.1:${databasePort}`,
    providerUrl: `http://127.0.0.1:${providerPort}`,
    inboxUrl: `http://127.0.0.1:${providerPort}/`,
  };
}

/** The Worker's variables and secrets on a local stack. */
export function workerVariables({ workerUrl, databaseUrl, providerUrl }, secrets) {
  return {
    ENVIRONMENT: 'local',
    DATABASE_URL: databaseUrl,
    PROVIDER_URL: providerUrl,
    PUBLIC_URL: workerUrl,
    MAIL_FROM: 'Sealpost <mail@sealpost.example>',
    ...secretBindings(secrets),
  };
}

function number(env, name, standard, least, most) {
  const text = env[name];
  if (text === undefined || text === '') return standard;
  const value = Number(text);
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new Failure(`${name} must be a whole number from ${least} to ${most}, not "${text}".`);
  }
  return value;
}
