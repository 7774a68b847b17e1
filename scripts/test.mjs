// `npm test`: the whole gate. `npm run check`: its fast part. `npm test -- --only native,e2e`: some stages.
import { Failure, main } from './lib/say.mjs';
import { runGate } from './lib/gate.mjs';
import { stages } from './lib/stages.mjs';

await main(async () => {
  const [option, value] = process.argv.slice(2);
  if (option === undefined) return runGate(stages.filter((stage) => stage.fast !== 'only'));
  if (option === '--fast') return runGate(stages.filter((stage) => stage.fast));
  const names = option === '--only' ? (value ?? '').split(',') : [];
  const unknown = names.filter((name) => !stages.some((stage) => stage.name === name));
  if (names.length === 0 || unknown.length > 0) {
    throw new Failure(`usage: npm test [-- --fast | --only STAGE,STAGE]; the stages are ${stages.map((stage) => stage.name).join(', ')}`);
  }
  return runGate(stages.filter((stage) => names.includes(stage.name)));
});
