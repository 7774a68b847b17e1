// How wrangler is run: offline, quiet, on the pinned Node, and with everything it writes inside one stack's home.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Failure } from './say.mjs';
import { buildDir, nodeModule, root } from './paths.mjs';

/** The wrangler program; run it with the pinned Node. */
export const wranglerProgram = nodeModule('wrangler', 'bin', 'wrangler.js');

/** The environment for every run of wrangler. `home` takes what it would write into the user's own folders. */
export function wranglerEnv(home) {
  return {
    WRANGLER_SEND_METRICS: 'false',
    WRANGLER_SEND_ERROR_REPORTS: 'false',
    // The banner is what asks the registry for a newer version.
    WRANGLER_HIDE_BANNER: 'true',
    WRANGLER_LOG_PATH: join(home, 'logs', 'wrangler'),
    WRANGLER_CACHE_DIR: join(home, 'wrangler-cache'),
    // A registry shared between stacks would hand the queue messages of one to another.
    WRANGLER_REGISTRY_PATH: join(home, 'registry'),
    CLOUDFLARE_DEV_REGISTRY_PATH: join(home, 'registry'),
    // Request.cf is not used, and its values would be fetched from the internet.
    CLOUDFLARE_CF_FETCH_ENABLED: 'false',
    NO_COLOR: '1',
    FORCE_COLOR: '0',
  };
}

/** The arguments of `wrangler dev` for one Worker part. */
export function wranglerDevArguments({ configPath, envPath, home, port }) {
  return [
    wranglerProgram,
    'dev',
    ...['--config', configPath],
    ...['--env-file', envPath],
    ...['--persist-to', join(home, 'wrangler-state')],
    ...['--ip', '127.0.0.1'],
    ...['--port', String(port)],
    ...['--inspector-port', '0'],
    ...['--show-interactive-dev-session', 'false'],
    ...['--env', ''],
  ];
}

/**
 * Writes the configuration of a local stack: wrangler.toml with another build folder, without the build command (the
 * stack built already), and with other consumer keys where a test asks for them (`{ max_retries: 2 }`). `main` is the
 * module to run, where it is not the build's own.
 */
export function writeLocalConfig(path, { build = buildDir, main = join(build, 'index.js'), consumers = {} } = {}) {
  let text = readFileSync(join(root, 'wrangler.toml'), 'utf8');
  text = replaceOnce(text, /^main = .*$/m, `main = ${JSON.stringify(main)}`, 'main');
  text = replaceOnce(text, /^\[build\]\n(?:(?!\[).*\n)*/m, '', '[build]');
  for (const [key, value] of Object.entries(consumers)) {
    const line = new RegExp(`^${key} = .*$`, 'gm');
    if (!line.test(text)) throw new Failure(`wrangler.toml sets no ${key}.`);
    text = text.replace(line, `${key} = ${JSON.stringify(value)}`);
  }
  writeFileSync(path, text);
}

/** Writes variables and secrets as an env file that only this user may read. */
export function writeEnvFile(path, variables) {
  const lines = Object.entries(variables).map(([name, value]) => {
    const text = String(value);
    // A dollar sign would be read as the name of another variable.
    if (/['$\n\r]/.test(text)) throw new Failure(`The variable ${name} has a quote, a dollar sign or a line break, which an env file cannot hold.`);
    return `${name}='${text}'`;
  });
  writeFileSync(path, `${lines.join('\n')}\n`, { mode: 0o600 });
}

function replaceOnce(text, pattern, replacement, name) {
  if (!pattern.test(text)) throw new Failure(`wrangler.toml has no ${name}.`);
  return text.replace(pattern, () => replacement);
}
