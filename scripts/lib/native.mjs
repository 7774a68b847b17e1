// The native `sealpost` command: development database, provider model, migrations, operator verbs.
import { existsSync } from 'node:fs';
import { looksOffline, mustRun } from './run.mjs';
import { ensureRust } from './rust.mjs';
import { sayPart, seconds } from './say.mjs';
import { sealpostCommand } from './paths.mjs';

/** Cargo itself decides whether anything is to be built; a build shorter than this is not worth a line. */
const WORTH_A_LINE_MS = 3_000;

/** Builds the command with the dev profile: it is for development, and compiles in half the time. */
export async function buildNative() {
  await ensureRust();
  const first = !existsSync(sealpostCommand);
  if (first) sayPart('build', 'compiling the native command (about 3 min, most of it the embedded database engine)');
  const { ms } = await mustRun('cargo build', 'cargo', ['build', '--locked', '--features', 'cli', '--bin', 'sealpost'], {
    label: 'cargo build',
    about: first ? '3 min' : undefined,
    explain: (said) =>
      looksOffline(said) ? 'The crates registry cannot be reached, and some crates are not on this machine yet: check the network and try again.' : undefined,
  });
  if (first || ms > WORTH_A_LINE_MS) sayPart('build', `native command built in ${seconds(ms)}`);
}

/** Applies the migrations to a running database. */
export async function migrate(databaseUrl) {
  const result = await mustRun('sealpost migrate', sealpostCommand, ['migrate', '--url', databaseUrl]);
  return result.stdout.trim().split('\n').at(-1) ?? '';
}
