// The simulation as stages of the gate: the whole of it, and the part that `npm run check` has time for.
import { countCargo, piece } from './gate.mjs';
import { Failure, say, seconds } from './say.mjs';
import { buildSimulation, isSimulationBuilt, simulationEnv } from './simulation.mjs';

/** Seeds of the gate: so many must run in five minutes on two cores. */
const SEEDS = 10_000;

/** Seeds of the fast part: some seconds. A guard that is gone altogether shows itself in so many. */
const SHORT_SEEDS = 300;

/** Seeds whose traces the gate compares with themselves. */
const SAME_SEEDS = 50;

/** What the gate runs: the words, and what is counted where it is more than one check. */
const PARTS = [
  { name: 'checks', words: [], count: countCargo },
  { name: 'seeds', words: ['seeds', '--seeds', String(SEEDS)] },
  { name: 'finds', words: ['finds'] },
  { name: 'same', words: ['same', '--seeds', String(SAME_SEEDS)] },
  { name: 'exhaustive', words: ['exhaustive'] },
  { name: 'interleavings', words: ['interleavings'] },
  { name: 'planted', words: ['planted'], count: countPlanted },
];

/** Adds up what the hunt for planted bugs says: a bug that nobody catches is a failed check. */
export function countPlanted(output) {
  const [, all, caught] = output.match(/^(\d+) planted bugs, (\d+) caught$/m) ?? [0, 0, 0];
  return { passed: Number(caught), failed: Number(all) - Number(caught) };
}

/** The whole simulation: each part is a line with its last words and its time. */
export function simulationStage() {
  return runParts(PARTS);
}

/** A few seeds, where that costs no first build. */
export async function simulationShortStage() {
  if (!isSimulationBuilt()) return { skipped: 'not built yet; npm run simulate builds it, and npm test runs it' };
  return runParts([{ name: 'seeds', words: ['seeds', '--seeds', String(SHORT_SEEDS)] }, { name: 'finds', words: ['finds'] }]);
}

async function runParts(parts) {
  const { program } = await buildSimulation();
  const env = await simulationEnv();
  const total = { passed: 0, failed: 0 };
  const failures = [];
  for (const { name, words, count } of parts) {
    let counts;
    try {
      const result = await piece(`simulation-${name}`, program, words, { env, count });
      counts = count?.(result.output) ?? { passed: 1, failed: 0 };
      if (counts.passed === 0) throw new Failure(`the simulation's ${name} checked nothing`);
      say(`  simulation ${name}: ${result.stdout.trim().split('\n').at(-1)} (${seconds(result.ms)})`);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      counts = error.counts ?? { passed: 0, failed: 1 };
      failures.push(error.message);
      say(`  simulation ${name}: FAILED`);
    }
    total.passed += counts.passed;
    total.failed += counts.failed;
  }
  if (failures.length === 0) return total;
  throw Object.assign(new Failure(failures.join('\n\n')), { counts: total });
}
