// `npm run build`: the Worker in release mode, with its sizes.
import { main, sayPart } from './lib/say.mjs';
import { ensureNodeModules } from './lib/npm.mjs';
import { buildWorker, checkWorkerSize } from './lib/worker-build.mjs';

await main(async () => {
  await ensureNodeModules();
  if (!(await buildWorker())) sayPart('build', 'up to date');
  checkWorkerSize();
});
