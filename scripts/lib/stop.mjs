// When the stack is asked to end: Ctrl-C, SIGTERM, a closed terminal, or an npm that is gone.
import { endStarting } from './part.mjs';
import { endRunning } from './run.mjs';

/** How often the supervisor looks whether the npm that started it is still there. */
const PARENT_CHECK_MS = 1_000;

/** Listens from now on. `promise` resolves (with nothing) once somebody asked; `asked` says so at once. */
export function untilAskedToStop() {
  const stop = { asked: false, interruption: new Error('interrupted') };
  stop.promise = new Promise((resolve) => {
    const ask = () => {
      stop.asked = true;
      // What is being compiled, installed or started at this moment is not waited for.
      endRunning();
      endStarting();
      resolve(undefined);
    };
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, ask);
    // A killed npm passes nothing on; its child would run on unseen and keep the ports.
    if (process.env.npm_lifecycle_event) {
      const parent = process.ppid;
      setInterval(() => {
        if (process.ppid !== parent) ask();
      }, PARENT_CHECK_MS).unref();
    }
  });
  return stop;
}
