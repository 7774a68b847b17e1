// `.sealpost/dev.json`: the face that other programs read, there exactly while the stack is up.
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { run } from './run.mjs';
import { endGroup, groupLives } from './part.mjs';
import { Failure, sayPart } from './say.mjs';

/** Writes dev.json whole or not at all: a reader that waits for it must never see half of it. */
export function recordStack(home, settings, secrets, parts) {
  const path = join(home, 'dev.json');
  const record = {
    workerUrl: settings.workerUrl,
    databaseUrl: settings.databaseUrl,
    providerUrl: settings.providerUrl,
    inboxUrl: settings.inboxUrl,
    producerToken: secrets.producerToken,
    operatorToken: secrets.operatorToken,
    webhookSecret: secrets.webhookSecret,
    // Each part leads a process group of its own: a negative pid reaches it with everything it started.
    pids: { supervisor: process.pid, ...Object.fromEntries(parts.map((part) => [part.name, part.pid])) },
  };
  writeFileSync(`${path}.new`, `${JSON.stringify(record, null, 2)}\n`, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

/** Removes dev.json, where this process wrote it. */
export function forgetStack(home) {
  if (readRecord(home)?.pids?.supervisor === process.pid) rmSync(join(home, 'dev.json'), { force: true });
}

/** Ends the parts that a killed supervisor of this home left running; refuses where a living one still uses the home. */
export async function endLeftovers(home) {
  const pids = readRecord(home)?.pids;
  if (!pids) return;
  const { supervisor, ...parts } = pids;
  if (supervisor && (await runs(supervisor, 'start.mjs'))) {
    throw new Failure(`A local stack is already running in ${home} (process ${supervisor}): end it, or choose another home with SEALPOST_HOME=FOLDER.`);
  }
  for (const [name, pid] of Object.entries(parts)) {
    // A pid may have been given to somebody else since: only a program of ours in this home is ended.
    if (groupLives(pid) && ((await runs(pid, home)) || (await runs(pid, 'sealpost provider')))) {
      sayPart(name, `ending process ${pid}, left over from a stack that was killed`);
      await endGroup(pid);
    }
  }
  rmSync(join(home, 'dev.json'), { force: true });
}

function readRecord(home) {
  const path = join(home, 'dev.json');
  if (!existsSync(path)) return undefined;
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}

async function runs(pid, text) {
  const { code, stdout } = await run('ps', ['-o', 'args=', '-p', String(pid)]);
  return code === 0 && stdout.includes(text);
}
