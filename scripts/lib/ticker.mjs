// Fires the Worker's schedule: the local runtime never does it by itself.
import { sayPart } from './say.mjs';
import { fireSchedule } from './stack.mjs';

/** Fires at once and then every `intervalMs`, never two at a time. Says when it starts failing and when it works again. */
export function startTicker(workerUrl, intervalMs) {
  let stopped = false;
  let failing = false;
  let timer;
  const tick = async () => {
    const { ok, detail } = await fireSchedule(workerUrl);
    if (stopped) return;
    if (ok === failing) sayPart('ticker', ok ? 'the schedule works again' : `the schedule failed: ${detail}`);
    failing = !ok;
    timer = setTimeout(tick, intervalMs);
  };
  timer = setTimeout(tick, 0);
  return {
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}
