// The stages of the gate, in the order in which a mistake is cheapest to learn of.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { countCargo, countNode, piece } from './gate.mjs';
import { checkLicences } from './licences.mjs';
import { buildNative } from './native.mjs';
import { ensureNodeModules } from './npm.mjs';
import { pinnedNode, root, wasmTargetDir } from './paths.mjs';
import { run } from './run.mjs';
import { ensureRust } from './rust.mjs';
import { Failure } from './say.mjs';
import { WASM_TARGET, ensureWasmTarget } from './wasm-target.mjs';
import { buildWorker, checkWorkerSize } from './worker-build.mjs';
import { wranglerEnv, wranglerProgram } from './wrangler.mjs';

/** What `wrangler deploy` must find in each environment; a binding that is missing there is missing in production. */
const ENVIRONMENTS = { '': 'sealpost-outbox', staging: 'sealpost-staging-outbox' };

/** The whole gate. `fast: true` marks what `npm run check` runs. */
export const stages = [
  { name: 'tools', fast: true, run: tools },
  { name: 'format', fast: true, needs: ['tools'], run: () => cargo('format', ['fmt', '--check']) },
  { name: 'lints', fast: true, needs: ['tools'], run: () => cargo('lints', ['clippy', '--locked', '--features', 'cli', '--all-targets', '--', '-D', 'warnings']) },
  { name: 'lints-wasm', fast: true, needs: ['tools'], run: lintWasm },
  { name: 'docs', fast: true, needs: ['tools'], run: () => cargo('docs', ['doc', '--locked', '--no-deps', '--lib', '--features', 'cli'], { RUSTDOCFLAGS: '-D warnings' }) },
  { name: 'licences', fast: true, needs: ['tools'], run: checkLicences },
  { name: 'scripts', fast: true, needs: ['tools'], run: () => nodeTests('scripts') },
  { name: 'native', fast: true, needs: ['tools'], run: nativeTests },
  { name: 'build', needs: ['tools'], run: build },
  { name: 'clients', needs: ['build'], run: () => nodeTests('clients') },
  { name: 'deploy', needs: ['build'], run: deployDryRun },
  { name: 'e2e', needs: ['build'], run: () => nodeTests('e2e') },
];

async function tools() {
  await ensureRust();
  await ensureNodeModules();
}

async function cargo(name, args, env = {}) {
  await piece(name, 'cargo', args, { env });
}

/** The Worker's own room exists on the Wasm target alone: the native lints never see it. */
async function lintWasm() {
  const compiler = await ensureWasmTarget();
  const env = { ...compiler, CARGO_TARGET_DIR: wasmTargetDir };
  const hasClippy = (await run('cargo', ['clippy', '--version'], { env })).code === 0;
  const verb = hasClippy ? ['clippy'] : ['check'];
  const strict = hasClippy ? ['--', '-D', 'warnings'] : [];
  await piece('lints-wasm', 'cargo', [...verb, '--locked', '--lib', '--target', WASM_TARGET, ...strict], { env });
  return hasClippy ? undefined : { passed: 1, failed: 0, skipped: 'the compiler for Wasm has no clippy; the Worker was only type-checked' };
}

async function nativeTests() {
  const { output } = await piece('native', 'cargo', ['test', '--locked', '--features', 'cli', '--no-fail-fast'], { count: countCargo });
  return countCargo(output);
}

async function build() {
  await buildNative();
  await buildWorker();
  checkWorkerSize();
}

async function nodeTests(folder) {
  const path = join(root, 'tests', folder);
  const files = existsSync(path) ? readdirSync(path).filter((name) => name.endsWith('.test.mjs')).sort() : [];
  if (files.length === 0) return { skipped: `tests/${folder} has no *.test.mjs` };
  // One file at a time: each brings servers of its own, and two cores are all there may be.
  const args = ['--test', '--test-concurrency=1', '--test-reporter=tap', ...files.map((name) => join('tests', folder, name))];
  const { output } = await piece(folder, pinnedNode, args, { count: countNode });
  const counts = countNode(output);
  if (counts.passed === 0) throw new Failure(`tests/${folder}: no test ran`);
  return counts;
}

async function deployDryRun() {
  const home = mkdtempSync(join(tmpdir(), 'sealpost-deploy-'));
  try {
    mkdirSync(join(home, 'logs'));
    for (const [environment, queue] of Object.entries(ENVIRONMENTS)) {
      const args = [wranglerProgram, 'deploy', '--dry-run', `--env=${environment}`, '--outdir', join(home, 'out')];
      const { output } = await piece(`deploy${environment && `-${environment}`}`, pinnedNode, args, { env: wranglerEnv(home) });
      if (!output.includes(`env.OUTBOX_QUEUE (${queue})`)) throw new Failure(`The environment "${environment}" binds no OUTBOX_QUEUE to ${queue}:\n${output}`);
    }
    return { passed: Object.keys(ENVIRONMENTS).length, failed: 0 };
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}
