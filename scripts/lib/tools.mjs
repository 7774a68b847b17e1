// Cargo tools that the project installs for itself, once per version, into the tools cache.
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { looksOffline, run, which } from './run.mjs';
import { lockedVersion } from './rust.mjs';
import { Failure, sayPart, seconds } from './say.mjs';
import { toolsCache } from './paths.mjs';

/** Turns the crate into what wrangler deploys. Raise it together with `worker` in Cargo.toml. */
export const WORKER_BUILD_VERSION = '0.8.7';

/** The path of worker-build, installed where it is missing. */
export function ensureWorkerBuild() {
  return ensureCargoTool('worker-build', WORKER_BUILD_VERSION, 'worker-build', '3 min');
}

/** The path of wasm-bindgen, whose version must be the library's to the last digit. */
export function ensureWasmBindgen() {
  return ensureCargoTool('wasm-bindgen-cli', lockedVersion('wasm-bindgen'), 'wasm-bindgen', '2 min');
}

/** Installs one binary of a crate at an exact version, unless the cache has it, and returns its path. */
export async function ensureCargoTool(crate, version, binary, about) {
  const folder = join(toolsCache, `${crate}-${version}`);
  const path = join(folder, 'bin', binary);
  if (existsSync(path)) return path;
  sayPart('tools', `installing ${crate} ${version}, once for all clones (about ${about})`);
  mkdirSync(folder, { recursive: true });
  const args = ['install', crate, '--version', `=${version}`, '--root', folder];
  const options = {
    label: crate,
    about,
    // A toolchain or target folder chosen for the project must not decide how its tools are built.
    env: {
      CARGO_TARGET_DIR: undefined,
      CARGO_BUILD_TARGET: undefined,
      RUSTFLAGS: undefined,
      // They run for a second per build: compiling them fast matters more than making them fast.
      CARGO_PROFILE_RELEASE_OPT_LEVEL: '1',
      CARGO_PROFILE_RELEASE_LTO: 'off',
      CARGO_PROFILE_RELEASE_CODEGEN_UNITS: '16',
      CARGO_PROFILE_RELEASE_DEBUG: '0',
    },
  };
  let result = await run(which('cargo'), [...args, '--locked'], options);
  if (result.code !== 0 && /failed to select a version/.test(result.stderr)) {
    // A mirror that lags behind lacks a version of the crate's own lock; any that fits is as good for a build tool.
    sayPart('tools', `this registry lacks a version in ${crate}'s own lock; taking the newest that fit instead`);
    result = await run(which('cargo'), args, options);
  }
  if (result.code !== 0) {
    throw new Failure(
      looksOffline(result.stderr)
        ? `The crates registry cannot be reached, and ${crate} ${version} must be installed once: check the network and try again.`
        : `cargo install ${crate} ${version} failed:\n${result.stderr.trim().slice(-3000)}`,
    );
  }
  sayPart('tools', `installed ${crate} ${version} in ${seconds(result.ms)}`);
  return path;
}
