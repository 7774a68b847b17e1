// The JavaScript side: node_modules exactly as package-lock.json says, checked before anything is run.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { looksOffline, mustRun, run, which } from './run.mjs';
import { Failure, sayPart, seconds } from './say.mjs';
import { nodeModule, pinnedNode, root } from './paths.mjs';

/** Remembers which lock node_modules was made from. It is written last: a broken install is made again. */
const STAMP = nodeModule('.sealpost-lock');

/** Installs node_modules unless they already match the lock. */
export async function ensureNodeModules() {
  const lock = createHash('sha256').update(readFileSync(join(root, 'package-lock.json'))).digest('hex');
  if (existsSync(STAMP) && readFileSync(STAMP, 'utf8') === lock && existsSync(pinnedNode)) return;
  if (!which('npm')) throw new Failure('npm is missing: install Node.js 20 or later, which brings it, and try again.');
  sayPart('packages', 'installing the npm packages of package-lock.json (about 20 s)');
  const { ms } = await mustRun('npm ci', 'npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
    label: 'npm ci',
    about: '20 s',
    // The wrong Node is expected here: the packages that want a newer one run on the one this installs.
    env: { npm_config_engine_strict: 'false', npm_config_ignore_scripts: 'false' },
    explain: (said) =>
      looksOffline(said)
        ? 'The npm registry cannot be reached: check the network (or `npm config get registry`) and try again.'
        : undefined,
  });
  const version = existsSync(pinnedNode) ? await run(pinnedNode, ['--version']) : { code: -1 };
  if (version.code !== 0) {
    throw new Failure(
      'The npm package "node" brought no working binary: allow its install script (`npm install-scripts approve node`) and try again.',
    );
  }
  writeFileSync(STAMP, lock);
  sayPart('packages', `installed in ${seconds(ms)}; Node ${version.stdout.trim()} runs wrangler`);
}
