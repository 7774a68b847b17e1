// Licences and sources of everything that is built in, and the advisories as far as this machine can know them.
import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { piece } from './gate.mjs';
import { root } from './paths.mjs';
import { looksOffline, mustRun, run, which } from './run.mjs';
import { Failure } from './say.mjs';

/** The longest that the advisory database may take to arrive; without it the check says so and goes on. */
const ADVISORIES_TIMEOUT_MS = 60_000;

/**
 * cargo-deny where it is installed (it compiles for minutes, so the gate does not install it), else a check of our own
 * that reads the same deny.toml.
 */
export async function checkLicences() {
  if (!which('cargo-deny') && !existsSync(join(homedir(), '.cargo', 'bin', 'cargo-deny'))) {
    await ownCheck();
    return { passed: 1, failed: 0, skipped: 'advisories, because cargo-deny is not installed (cargo install cargo-deny); licences and sources were checked' };
  }
  await piece('licences', 'cargo', ['deny', '--locked', 'check', 'licenses', 'bans', 'sources']);
  const advisories = await run('cargo', ['deny', '--locked', 'check', 'advisories'], { timeoutMs: ADVISORIES_TIMEOUT_MS });
  if (advisories.code === 0) return undefined;
  const said = advisories.stdout + advisories.stderr;
  if (advisories.code === -1 || looksOffline(said) || /failed to (fetch|clone|load|acquire).*advisor/i.test(said)) {
    return { passed: 1, failed: 0, skipped: 'advisories, because the advisory database could not be fetched; licences and sources were checked' };
  }
  throw new Failure(`cargo deny check advisories ended with ${advisories.code}\n${said.slice(-6000)}`);
}

async function ownCheck() {
  const policy = readFileSync(join(root, 'deny.toml'), 'utf8');
  const allowed = new Set(list(policy, 'allow'));
  const { stdout } = await mustRun('cargo metadata', 'cargo', ['metadata', '--locked', '--format-version', '1', '--all-features'], {
    outputCharsMax: 100_000_000,
  });
  const problems = [];
  const packages = JSON.parse(stdout).packages.filter((found) => found.source !== null);
  for (const { name, version, license, source } of packages) {
    if (!license || !licenceAllowed(license, allowed)) problems.push(`${name} ${version}: the licence ${license ?? '(none)'} is not allowed`);
    if (!source.startsWith('registry+')) problems.push(`${name} ${version}: it does not come from a registry`);
  }
  const registries = new Set(packages.map((found) => found.source));
  if (registries.size > 1) problems.push(`more than one registry is used: ${[...registries].join(', ')}`);
  if (packages.length === 0) problems.push('cargo metadata named no dependency, so nothing was checked');
  if (problems.length > 0) throw new Failure(problems.join('\n'));
}

/** Whether an SPDX expression can be fulfilled with allowed licences alone. The old "/" means OR. */
export function licenceAllowed(expression, allowed) {
  const tokens = expression.replaceAll('/', ' OR ').match(/\(|\)|[^\s()]+/g) ?? [];
  let at = 0;
  const either = () => {
    let result = both();
    while (tokens[at] === 'OR') {
      at += 1;
      result = both() || result;
    }
    return result;
  };
  const both = () => {
    let result = one();
    while (tokens[at] === 'AND') {
      at += 1;
      result = one() && result;
    }
    return result;
  };
  const one = () => {
    if (tokens[at] === '(') {
      at += 1;
      const result = either();
      if (tokens[at] !== ')') return false;
      at += 1;
      return result;
    }
    let licence = tokens[at];
    at += 1;
    if (tokens[at] === 'WITH') {
      licence = `${licence} WITH ${tokens[at + 1]}`;
      at += 2;
    }
    return allowed.has(licence);
  };
  const result = either();
  return result && at === tokens.length;
}

function list(toml, key) {
  const found = toml.match(new RegExp(`^${key} = \\[([^\\]]*)\\]`, 'm'));
  if (!found) throw new Failure(`deny.toml has no ${key}.`);
  return [...found[1].matchAll(/"([^"]+)"/g)].map(([, item]) => item);
}
