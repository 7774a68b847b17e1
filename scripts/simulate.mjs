// `npm run simulate -- --seeds 10000 [--from N] [--resume]`, `-- --seed N [--trace] [--shrink] [--keep NAME]`, `-- finds`,
// `-- --help`: builds the simulation and runs it. docs/testing.md says how to read what it prints.
import { main, say, sayPart, seconds } from './lib/say.mjs';
import { buildSimulation, runSimulation, simulationWords } from './lib/simulation.mjs';
import { untilAskedToStop } from './lib/stop.mjs';

/** How a program ends that was interrupted. */
const INTERRUPTED = 130;

await main(async () => {
  const stop = untilAskedToStop();
  const words = simulationWords(process.argv.slice(2));
  let built;
  try {
    built = await buildSimulation();
  } catch (error) {
    if (!stop.asked) throw error;
  }
  if (stop.asked) {
    say('stopped while compiling');
    return INTERRUPTED;
  }
  if (built.compiled) sayPart('build', `simulation built in ${seconds(built.ms)}`);
  return runSimulation(built.program, words, stop);
});
