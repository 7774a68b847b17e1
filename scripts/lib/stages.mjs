// The stages of the gate, in the order in which a mistake is cheapest to learn of.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { countCargo, countNode, piece, skippedNode } from './gate.mjs';
import { checkLicences } from './licences.mjs';
import { buildNative } from './native.mjs';
import { ensureNodeModules } from './npm.mjs';
import { pinnedNode, root, wasmTargetDir } from './paths.mjs';
import { run, withoutProgress } from './run.mjs';
import { ensureRust } from './rust.mjs';
import { Failure } from './say.mjs';
import { simulationStage, simulationShortStage } from './simulation-stage.mjs';
import { WASM_TARGET, ensureWasmTarget } from './wasm-target.mjs';
import { buildWorker, checkWorkerSize } from './worker-build.mjs';
import { wranglerEnv, wranglerProgram } from './wrangler.mjs';

/** What `wrangler deploy` must find in each environment; a binding that is missing there is missing in production. */
const ENVIRONMENTS = { '': 'sealpost-outbox', staging: 'sealpost-staging-outbox' };

/** How tests/clients/sqld.mjs ends where no real server can be had. */
const UNAVAILABLE = 75;

/** The whole gate. `fast: true` marks what `npm run check` runs, and `fast: 'only'` what the whole gate does better. */
export const stages = [
  { name: 'tools', fast: true, run: tools },
  { name: 'format', fast: true, needs: ['tools'], run: () => cargo('format', ['fmt', '--check']) },
  { name: 'lints', fast: true, needs: ['tools'], run: lints },
  { name: 'lints-wasm', fast: true, needs: ['tools'], run: lintWasm },
  { name: 'docs', fast: true, needs: ['tools'], run: () => cargo('docs', ['doc', '--locked', '--no-deps', '--lib', '--features', 'cli'], { RUSTDOCFLAGS: '-D warnings' }) },
  { name: 'licences', fast: true, needs: ['tools'], run: checkLicences },
  { name: 'scripts', fast: true, needs: ['tools'], run: () => nodeTests('scripts') },
  { name: 'native', fast: true, needs: ['tools'], run: nativeTests },
  { name: 'simulation-short', fast: 'only', needs: ['tools'], run: simulationShortStage },
  { name: 'simulation', needs: ['tools'], run: simulationStage },
  { name: 'build', needs: ['tools'], run: build },
  { name: 'clients', needs: ['build'], run: () => nodeTests('clients') },
  { name: 'sqld', needs: ['native', 'build'], run: realServer },
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

async function lints() {
  const clippy = (targets) => ['clippy', '--locked', '--features', 'cli', ...targets, '--', '-D', 'warnings'];
  await cargo('lints', clippy(['--all-targets']));
  // Built by name alone, because it has a profile of its own.
  await cargo('lints-simulation', clippy(['--test', 'simulation']));
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
  const skipped = skippedNode(output);
  return skipped.length > 0 ? { ...counts, skipped: skipped.join('; ') } : counts;
}

/** The database contract, asked of a real server by our own client and by the official one. */
async function realServer() {
  const { code, stdout, stderr } = await run(pinnedNode, [join('tests', 'clients', 'sqld.mjs')], { label: 'sqld' });
  const output = `${stdout}\n${stderr}`;
  if (code === UNAVAILABLE) return { skipped: stderr.trim().split('\n').at(-1) };
  const [ours, theirs] = [countCargo(output), countNode(output)];
  const counts = { passed: ours.passed + theirs.passed, failed: ours.failed + theirs.failed };
  if (code === 0 && counts.passed > 0) return counts;
  const error = new Failure(`tests/clients/sqld.mjs ended with ${code}\n${withoutProgress(output).slice(-12_000)}`);
  error.counts = { ...counts, failed: counts.failed || 1 };
  throw error;
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
