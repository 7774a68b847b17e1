// The answer to a send is lost, and the next version of the Worker renders mails differently: what was sealed goes out
// again as it was.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { buildVariant } from '../../scripts/lib/worker-build.mjs';
import { SHORT, assertSentOnce, invitation, record, rowsOf, settled } from './checks.mjs';
import { request } from './control.mjs';
import { startStack, until } from './harness.mjs';

const MARK = 'This layout is the changed one.';

let stack;
before(async () => {
  stack = await startStack({ vars: SHORT });
});
after(() => stack?.stop());

test('the answer is lost, then layout and sender change with a new deployment: the same bytes, one mail, the first id', async () => {
  // The first call is accepted and its answer lost; no later call arrives before the redeployment.
  await stack.faults.provider([{ kind: 'accept_then_drop' }, { kind: 'refuse_connection', count: -1 }]);
  const ids = await record(stack, [invitation('before')]);
  await until(async () => (await rowsOf(stack, ids))[0].doubts > 0 && (await stack.accepted()).length === 1, { what: 'the answer is lost' });
  const [first] = await stack.accepted();
  await stack.killWorker('SIGTERM');
  await stack.provider.clearFaults();

  const build = await buildVariant('layout', (folder) => {
    const layout = join(folder, 'templates', 'layout.html');
    writeFileSync(layout, readFileSync(layout, 'utf8').replace('<p style="margin:0;">', `<p>${MARK}</p>$&`));
  });
  await stack.startWorker({ ...SHORT, MAIL_FROM: 'Another name <other@sealpost.example>', ENVIRONMENT: 'changed' }, { build });
  await settled(stack, ids, { ticks: true });
  await assertSentOnce(stack, ids);
  const [row] = await rowsOf(stack, ids);
  assert.equal(row.provider_message_id, first.id);
  assert.ok((await stack.requests()).some(({ outcome, bodySha256 }) => outcome === 'replayed' && bodySha256 === first.bodySha256));

  // The new version is the one that runs: a new mail has its layout and its sender, the old one has neither.
  const later = await record(stack, [invitation('later')]);
  await settled(stack, later, { ticks: true });
  const [{ provider_message_id: laterId }] = await rowsOf(stack, later);
  const [old, fresh] = [await mail(first.id), await mail(laterId)];
  assert.ok(fresh.html.includes(MARK) && fresh.from.includes('other@sealpost.example'));
  assert.ok(!old.html.includes(MARK) && !old.from.includes('other@sealpost.example'));
});

/** A mail as the provider's own door shows it. */
async function mail(id) {
  const headers = { authorization: `Bearer ${stack.secrets.providerKey}`, 'user-agent': 'test' };
  const { status, body } = await request(`${stack.settings.providerUrl}/emails/${id}`, { headers });
  assert.equal(status, 200, JSON.stringify(body));
  return body;
}
