// `npm run mutants`: takes each guard of tests/mutations out, one at a time, and expects its test to fail.
// `npm run mutants -- --only NAME` (or NAME,NAME) runs some of them.
import { Failure, main, say, seconds } from './lib/say.mjs';
import { Lab, sayLab } from './lib/mutant-lab.mjs';
import { ensureNodeModules } from './lib/npm.mjs';
import { readMutations } from './lib/mutations.mjs';
import { root } from './lib/paths.mjs';
import { ensureRust } from './lib/rust.mjs';

/** How much of a failed run's output is shown. */
const SHOWN_CHARS = 4_000;

await main(async () => {
  const mutations = choose(readMutations(root), process.argv.slice(2));
  const withModules = mutations.some(({ runner }) => runner === 'e2e');
  await ensureRust();
  if (withModules) await ensureNodeModules();
  const lab = new Lab();
  await lab.open({ withModules });
  try {
    sayLab(lab);
    await mustPassWhole(lab, mutations);
    return await runAll(lab, mutations);
  } finally {
    lab.close();
  }
});

function choose(all, [option, value, ...rest]) {
  if (option === undefined) return all;
  const names = option === '--only' ? (value ?? '').split(',').filter(Boolean) : [];
  const unknown = names.filter((name) => !all.some((mutation) => mutation.name === name));
  if (names.length === 0 || unknown.length > 0 || rest.length > 0) {
    throw new Failure(`usage: npm run mutants [-- --only NAME,NAME]; the names are:\n${all.map((mutation) => mutation.name).join('\n')}`);
  }
  return all.filter((mutation) => names.includes(mutation.name));
}

/** Every test first runs over whole sources: one that fails anyway would catch every mutant. */
async function mustPassWhole(lab, mutations) {
  const wrong = [];
  for (const mutation of unlike(mutations)) {
    const { result, output } = await lab.judge(mutation);
    if (result !== 'passed') wrong.push(`${mutation.from}: without a mutation, "${mutation.test}" (${mutation.runner}) is ${result}\n${end(output)}`);
  }
  if (wrong.length > 0) throw new Failure(wrong.join('\n\n'));
  say(`all tests pass without a mutation`);
}

function unlike(mutations) {
  return [...new Map(mutations.map((mutation) => [`${mutation.runner} ${mutation.test}`, mutation])).values()];
}

async function runAll(lab, mutations) {
  const count = { caught: 0, survived: 0, broken: 0 };
  const words = { failed: 'caught', passed: 'survived', broken: 'broken', missing: 'broken' };
  for (const mutation of mutations) {
    const since = Date.now();
    const { result, output } = await lab.without(mutation, () => lab.judge(mutation));
    const word = words[result];
    count[word] += 1;
    say(`${word.toUpperCase().padEnd(9)} ${mutation.name} (${mutation.subject}), ${seconds(Date.now() - since)}`);
    if (word === 'survived') say(`  ${mutation.test} passes although the guard in ${mutation.file} is out`);
    if (word === 'broken') say(`  the mutant does not compile, so it proves nothing: mend ${mutation.from}\n${end(output)}`);
  }
  const broken = count.broken > 0 ? `, ${count.broken} do not compile` : '';
  say(`${count.caught} caught, ${count.survived} survived${broken}`);
  return count.survived + count.broken === 0 ? 0 : 1;
}

function end(output) {
  return output.trim().slice(-SHOWN_CHARS);
}
