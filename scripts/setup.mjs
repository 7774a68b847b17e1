// `npm run setup`: installs every tool ahead of time, for a machine that will be offline later.
import { main, say } from './lib/say.mjs';
import { ensureNodeModules } from './lib/npm.mjs';
import { ensureRust } from './lib/rust.mjs';
import { ensureWasmBindgen, ensureWorkerBuild } from './lib/tools.mjs';
import { ensureWasmTarget } from './lib/wasm-target.mjs';

await main(async () => {
  await ensureRust();
  await ensureNodeModules();
  await ensureWasmTarget();
  await ensureWorkerBuild();
  await ensureWasmBindgen();
  say('all tools are in place');
});
