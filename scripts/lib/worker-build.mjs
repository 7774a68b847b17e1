// Builds the Worker for release, strips it, measures it, and does nothing where nothing changed.
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { delimiter, join, relative } from 'node:path';
import { gzipSync } from 'node:zlib';
import { mustRun, looksOffline } from './run.mjs';
import { Failure, kilobytes, sayPart, seconds } from './say.mjs';
import { ensureRust } from './rust.mjs';
import { WORKER_BUILD_VERSION, ensureWasmBindgen, ensureWorkerBuild } from './tools.mjs';
import { WASM_TARGET, ensureWasmTarget } from './wasm-target.mjs';
import { buildDir, nodeModule, root, wasmTargetDir } from './paths.mjs';

/** Wasm and JavaScript together, gzipped: every isolate that starts downloads them. The platform's own limit is far higher. */
export const SIZE_GZIPPED_BYTES_MAX = 600_000;

/** Everything that the compiled Worker depends on. A path that does not exist yet counts as empty. */
const INPUTS = ['src', 'benches', 'templates', 'migrations', 'families.toml', 'Cargo.toml', 'Cargo.lock', 'build.rs', 'scripts/lib/worker-build.mjs', 'package-lock.json'];

/** Rooms of src that the Worker does not contain: a change in them builds nothing new. */
const NATIVE_ONLY = ['src/bin', 'src/devstack'];

/** What worker-build leaves in the build folder, as far as it is deployed. */
const OUTPUTS = ['index.js', 'index_bg.wasm'];

/**
 * Largest function, in wasm-opt's unit, that it moves into the one place that calls it. Without a limit it makes
 * functions of 150 kB with thousands of locals, which are a little smaller and compress far worse: 37 kB gzipped.
 */
const ONE_CALLER_INLINE_SIZE_MAX = 15;

/** Remembers which inputs the outputs were made from. */
const STAMP = join(buildDir, '.inputs');

/** Builds the Worker unless the outputs belong to the inputs; returns true where it built. */
export async function buildWorker() {
  const inputs = hashInputs();
  if (OUTPUTS.every((name) => existsSync(join(buildDir, name))) && existsSync(STAMP) && readFileSync(STAMP, 'utf8') === inputs) {
    return false;
  }
  const ms = await compile(root);
  await shrink();
  mkdirSync(buildDir, { recursive: true });
  writeFileSync(STAMP, inputs);
  sayPart('build', `built in ${seconds(ms)}`);
  return true;
}

/**
 * Builds the Worker from a copy of the sources that `change(folder)` has changed, for a test that deploys another
 * version; returns its build folder. Nothing is built where the copy is the same as last time.
 */
export async function buildVariant(name, change) {
  const folder = join(wasmTargetDir, 'variants', name);
  const stamp = join(folder, '.inputs');
  for (const input of INPUTS) {
    rmSync(join(folder, input), { recursive: true, force: true });
    if (existsSync(join(root, input))) cpSync(join(root, input), join(folder, input), { recursive: true });
  }
  change(folder);
  const inputs = hashInputs(folder);
  const built = OUTPUTS.every((output) => existsSync(join(folder, 'build', output)));
  if (!built || !existsSync(stamp) || readFileSync(stamp, 'utf8') !== inputs) {
    await compile(folder);
    writeFileSync(stamp, inputs);
  }
  return join(folder, 'build');
}

/** Runs worker-build on the sources in a folder; returns how long it took, in ms. */
async function compile(folder) {
  await ensureRust();
  const compiler = await ensureWasmTarget();
  const workerBuild = await ensureWorkerBuild();
  const wasmBindgen = await ensureWasmBindgen();
  const about = existsSync(wasmTargetDir) ? '40 s' : '2 min';
  sayPart('build', `compiling the Worker in release mode (about ${about})`);
  forgetCompiled();
  const { ms } = await mustRun(`worker-build ${WORKER_BUILD_VERSION}`, workerBuild, ['--release', '--no-opt'], {
    cwd: folder,
    label: 'worker-build',
    about,
    env: {
      ...compiler,
      PATH: `${nodeModule('.bin')}${delimiter}${process.env.PATH}`,
      CARGO_TARGET_DIR: wasmTargetDir,
      WASM_BINDGEN_BIN: wasmBindgen,
      ESBUILD_BIN: nodeModule('esbuild', 'bin', 'esbuild'),
    },
    explain: (said) =>
      looksOffline(said) ? 'The crates registry cannot be reached, and some crates are not on this machine yet: check the network and try again.' : undefined,
  });
  return ms;
}

/**
 * Makes cargo compile the package itself anew; its dependencies stay. Cargo does not tell the sources from their copy
 * within one target folder, and would hand out what it compiled from the other. Whoever compiles has changed inputs, so
 * nothing is lost.
 */
function forgetCompiled() {
  for (const profile of ['release', join(WASM_TARGET, 'release')]) {
    const fingerprints = join(wasmTargetDir, profile, '.fingerprint');
    if (!existsSync(fingerprints)) continue;
    for (const name of readdirSync(fingerprints)) {
      if (/^sealpost-[0-9a-f]+$/.test(name)) rmSync(join(fingerprints, name), { recursive: true, force: true });
    }
  }
}

/**
 * worker-build's own pass of wasm-opt keeps the functions' names, which help nobody in a release and weigh 50 kB
 * gzipped; so the pass is ours. The features are those that worker-build allows, and workerd has.
 */
async function shrink() {
  const wasm = join(buildDir, 'index_bg.wasm');
  const features = ['mutable-globals', 'sign-ext', 'nontrapping-float-to-int', 'bulk-memory', 'multivalue', 'reference-types', 'exception-handling'];
  const inline = `--one-caller-inline-max-function-size=${ONE_CALLER_INLINE_SIZE_MAX}`;
  const flags = ['-Oz', inline, '--strip-debug', '--strip-producers', ...features.map((feature) => `--enable-${feature}`)];
  await mustRun('wasm-opt', process.execPath, [nodeModule('binaryen', 'bin', 'wasm-opt'), ...flags, wasm, '-o', wasm], {
    label: 'wasm-opt',
    about: '30 s',
    env: { PATH: `${nodeModule('.bin')}${delimiter}${process.env.PATH}` },
  });
}

/** The sizes of the outputs in bytes: `[{ name, raw, gzipped }]`. */
export function measureWorker() {
  return OUTPUTS.map((name) => {
    const bytes = readFileSync(join(buildDir, name));
    return { name, raw: bytes.length, gzipped: gzipSync(bytes, { level: 9 }).length };
  });
}

/** Prints the sizes and fails where the Worker has outgrown its limit. */
export function checkWorkerSize() {
  const sizes = measureWorker();
  for (const { name, raw, gzipped } of sizes) {
    sayPart('size', `${name.padEnd(14)} ${kilobytes(raw).padStart(10)}   gzipped ${kilobytes(gzipped).padStart(9)}`);
  }
  const raw = sizes.reduce((sum, size) => sum + size.raw, 0);
  const gzipped = sizes.reduce((sum, size) => sum + size.gzipped, 0);
  sayPart('size', `${'together'.padEnd(14)} ${kilobytes(raw).padStart(10)}   gzipped ${kilobytes(gzipped).padStart(9)} (limit ${kilobytes(SIZE_GZIPPED_BYTES_MAX)})`);
  if (gzipped >= SIZE_GZIPPED_BYTES_MAX) {
    throw new Failure(`The Worker is ${kilobytes(gzipped)} gzipped and must stay under ${kilobytes(SIZE_GZIPPED_BYTES_MAX)}: find out what was added (docs of the library, features, tables) and take it out.`);
  }
}

function hashInputs(folder = root) {
  const hash = createHash('sha256');
  for (const input of INPUTS) addToHash(hash, folder, join(folder, input));
  return hash.digest('hex');
}

function addToHash(hash, folder, path) {
  const name = relative(folder, path);
  if (NATIVE_ONLY.includes(name) || !existsSync(path)) return;
  if (statSync(path).isDirectory()) {
    for (const entry of readdirSync(path).sort()) addToHash(hash, folder, join(path, entry));
    return;
  }
  const bytes = readFileSync(path);
  hash.update(`${name}\0${bytes.length}\0`).update(bytes);
}
