// `npm start`: builds what is missing and runs the whole of Sealpost on this machine until Ctrl-C.
import { mkdirSync } from 'node:fs';
import { Failure, main, say, sayPart, seconds } from './lib/say.mjs';
import { ensureNodeModules } from './lib/npm.mjs';
import { buildNative, migrate } from './lib/native.mjs';
import { buildWorker } from './lib/worker-build.mjs';
import { ensureFreePort } from './lib/part.mjs';
import { loadSecrets } from './lib/secrets.mjs';
import { connectWebhook, startDatabase, startProvider, startWorker } from './lib/stack.mjs';
import { stackHome } from './lib/paths.mjs';
import { readSettings, workerVariables } from './lib/settings.mjs';
import { startTicker } from './lib/ticker.mjs';
import { endLeftovers, forgetStack, recordStack } from './lib/record.mjs';
import { printWelcome } from './lib/welcome.mjs';
import { untilAskedToStop } from './lib/stop.mjs';

await main(async () => {
  const started = Date.now();
  const stop = untilAskedToStop();
  const settings = readSettings();
  mkdirSync(stackHome, { recursive: true, mode: 0o700 });
  await endLeftovers(stackHome);
  await ensureFreePort(settings.databasePort, 'database', 'SEALPOST_DB_PORT');
  await ensureFreePort(settings.providerPort, 'provider', 'SEALPOST_PROVIDER_PORT');
  await ensureFreePort(settings.workerPort, 'Worker', 'SEALPOST_PORT');

  const parts = [];
  const up = async (start) => {
    if (stop.asked) throw stop.interruption;
    const part = await start();
    parts.push(part);
    return part;
  };
  let ticker;
  try {
    await ensureNodeModules();
    await buildNative();
    await buildWorker();
    const secrets = loadSecrets(stackHome);
    const home = stackHome;
    await up(() => startDatabase({ home, port: settings.databasePort, latencyMs: settings.databaseLatencyMs }));
    sayPart('database', `${settings.databaseUrl} (${home}/outbox.db)`);
    sayPart('database', await migrate(settings.databaseUrl));
    await up(() => startProvider({ home, port: settings.providerPort }));
    sayPart('provider', `${settings.providerUrl} (inbox: ${settings.inboxUrl})`);
    await up(() => startWorker({ home, port: settings.workerPort, variables: workerVariables(settings, secrets) }));
    sayPart('worker', `${settings.workerUrl} (log: ${home}/logs/worker.log)`);
    await connectWebhook(settings.providerUrl, { url: settings.receiptsUrl, secret: secrets.webhookSecret, auto: true });
    sayPart('provider', 'tells the Worker what became of every mail');
    ticker = startTicker(settings.workerUrl, settings.tickMs);
    sayPart('ticker', `fires the schedule every ${seconds(settings.tickMs)}`);

    recordStack(home, settings, secrets, parts);
    printWelcome(settings, secrets);
    say(`up in ${seconds(Date.now() - started)}; Ctrl-C ends it`);
    say('sealpost ready');

    const died = await Promise.race([stop.promise, ...parts.map((part) => part.ended.then(() => part))]);
    if (died) throw new Failure(`${died.obituary()} Everything else was ended too.`);
  } catch (error) {
    // A part that Ctrl-C reached while it started is no failure.
    if (!stop.asked) throw error;
  } finally {
    ticker?.stop();
    // The Worker first: it must not see its database go.
    for (const part of parts.reverse()) await part.stop();
    forgetStack(stackHome);
  }
  say('\nended; nothing is left running');
});
