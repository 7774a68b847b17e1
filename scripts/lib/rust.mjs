// What must be on the machine before anything can be compiled, and which versions the project asks for.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { run, which } from './run.mjs';
import { Failure } from './say.mjs';
import { root } from './paths.mjs';

/** Fails with one sentence unless cargo, rustc and a C compiler are there and rustc is new enough. */
export async function ensureRust() {
  if (!which('cargo') || !which('rustc')) {
    throw new Failure('Rust is missing: install rustup (https://rustup.rs) and try again.');
  }
  if (!which('cc')) {
    throw new Failure(
      'A C compiler is missing, and the development database needs one: install it (on Debian: apt-get install build-essential) and try again.',
    );
  }
  const rustc = await run('rustc', ['--version']);
  if (rustc.code !== 0) {
    throw new Failure(`rustc does not run: choose a toolchain with \`rustup default stable\` and try again. It said: ${rustc.stderr.trim().split('\n')[0]}`);
  }
  const have = rustc.stdout.match(/(\d+)\.(\d+)/);
  const wanted = manifestField('rust-version');
  const [major, minor] = wanted.split('.').map(Number);
  if (!have || Number(have[1]) < major || (Number(have[1]) === major && Number(have[2]) < minor)) {
    throw new Failure(`Rust ${wanted} or later is needed and this is "${rustc.stdout.trim()}": run \`rustup update\` and try again.`);
  }
}

/** A field of the package section of Cargo.toml. */
export function manifestField(name) {
  const found = readFileSync(join(root, 'Cargo.toml'), 'utf8').match(new RegExp(`^${name} = "([^"]+)"`, 'm'));
  if (!found) throw new Failure(`Cargo.toml has no ${name}.`);
  return found[1];
}

/** The version of a package in Cargo.lock. */
export function lockedVersion(name) {
  const found = readFileSync(join(root, 'Cargo.lock'), 'utf8').match(new RegExp(`^name = "${name}"\\nversion = "([^"]+)"`, 'm'));
  if (!found) throw new Failure(`Cargo.lock names no ${name}.`);
  return found[1];
}
